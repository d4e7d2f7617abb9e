package http1

// BufferSize returns the size of the parser's buffer.
func (p *parser) BufferSize() int { return cap(p.buf) }

// Common returns the names that canonical knows.
func Common() map[string]string { return common }

// TextEnd is textEnd.
func TextEnd(b []byte, i int) int { return textEnd(b, i) }

// NeverTrailer is neverTrailer.
func NeverTrailer(name string) bool { return neverTrailer([]byte(name)) }
