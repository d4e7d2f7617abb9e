package http1

// readChunked reads a chunked body up to the next piece of data, or its end.
//
//	size [; extension] CR LF  data CR LF  …  0 [; extension] CR LF  trailer
func (p *parser) readChunked(data []byte) (int, Event, error) {
	for i := 0; i < len(data); {
		c := data[i]
		switch p.state {
		case atChunkSize:
			switch d := hex[c]; {
			case d < 16 && p.digits < 16:
				p.size = p.size<<4 | uint64(d)
				p.digits++
			case p.digits == 0 || d < 16:
				return 0, More, p.fail(ErrChunkSize)
			case c == '\r':
				p.state = atChunkSizeLF
			case c == ';':
				p.state = atChunkExtension
			default:
				return 0, More, p.fail(ErrChunkSize)
			}
			i++
		case atChunkExtension:
			end := textEnd(data, i)
			if end < len(data) && data[end] == '\t' {
				end++
			}
			p.extension += end - i
			switch {
			case p.extension > p.limits.ChunkExtensionBytes:
				return 0, More, p.fail(ErrChunkExtensionTooLarge)
			case end < len(data) && data[end] == '\r':
				p.state = atChunkSizeLF
				end++
			case end == i:
				return 0, More, p.fail(ErrChunkExtension)
			}
			i = end
		case atChunkSizeLF:
			if c != '\n' {
				return 0, More, p.fail(ErrChunkSize)
			}
			if err := p.beginChunk(); err != nil {
				return 0, More, p.fail(err)
			}
			i++
		case atChunkData:
			k := min(p.remaining, int64(len(data)-i))
			p.remaining -= k
			if p.remaining == 0 {
				p.state = atChunkDataCR
			}
			p.data = data[i : i+int(k)]
			return i + int(k), Data, nil
		case atChunkDataCR:
			if c != '\r' {
				return 0, More, p.fail(ErrChunkEnd)
			}
			p.state = atChunkDataLF
			i++
		case atChunkDataLF:
			if c != '\n' {
				return 0, More, p.fail(ErrChunkEnd)
			}
			p.state = atChunkSize
			p.size, p.digits = 0, 0
			i++
		default:
			return p.readTrailer(data, i)
		}
	}
	return len(data), More, nil
}

// beginChunk starts a chunk, or the trailer section, after a complete size line.
func (p *parser) beginChunk() *Error {
	switch n := int64(p.size); {
	case n < 0:
		return ErrChunkSize
	case n == 0:
		p.state = atTrailer
		p.pos, p.maxPos = 0, p.limits.TrailerBytes
		p.buf = p.buf[:0]
		p.fields = p.fields[:0]
	case p.limits.BodyBytes > 0 && n > p.limits.BodyBytes-p.total:
		return ErrBodyTooLarge
	default:
		p.state = atChunkData
		p.remaining = n
		p.total += n // used only if there is a limit
	}
	return nil
}

// AppendUnread appends the bytes that the parser has read ahead of the caller in a
// chunked body: data, which the parser returned and the caller did not use, as a chunk,
// and the framing after it that the parser has read. A reader that takes over the
// connection reads them before the remaining input. Chunk extensions and the sizes of
// earlier chunks are not restored.
func (p *parser) AppendUnread(dst, data []byte) []byte {
	if p.state == atChunkData {
		dst = AppendChunkHead(dst, len(data)+int(p.remaining))
		return append(dst, data...)
	}
	within := p.state == atChunkDataCR || p.state == atChunkDataLF
	if len(data) > 0 {
		dst = AppendChunkHead(dst, len(data))
		dst = append(dst, data...)
		if !within {
			dst = append(dst, ChunkEnd...)
		}
	}
	switch p.state {
	case atChunkDataLF:
		dst = append(dst, '\r')
	case atChunkSize, atChunkExtension, atChunkSizeLF:
		for i := p.digits - 1; i >= 0; i-- {
			dst = append(dst, "0123456789abcdef"[p.size>>(4*i)&15])
		}
		if p.state == atChunkExtension {
			dst = append(dst, ';')
		} else if p.state == atChunkSizeLF {
			dst = append(dst, '\r')
		}
	case atTrailer:
		dst = append(append(dst, "0\r\n"...), p.buf...)
	}
	return dst
}
