package http1

// RequestParser reads the requests of a connection, one after the other. Create one
// with NewRequestParser. The package comment describes the results of its methods and
// how long they are valid.
type RequestParser struct{ parser }

// NewRequestParser returns a parser that is ready for a request.
func NewRequestParser(l Limits) *RequestParser {
	return &RequestParser{newParser(l, false)}
}

// Reset makes the parser ready for a new connection, also after an error. It keeps the
// limits.
func (p *RequestParser) Reset() {
	*p = RequestParser{parser{limits: p.limits, fields: p.fields[:0], buf: p.buf[:0], known: p.known}}
}

// Method returns the method as it was sent.
func (p *RequestParser) Method() []byte { return p.text(p.method) }

// Target returns the part of the request line between method and version: a path and
// query, an absolute URL, host and port for CONNECT, or the asterisk of OPTIONS.
func (p *RequestParser) Target() []byte { return p.text(p.target) }

// Absolute reports whether Target is an absolute URL.
func (p *RequestParser) Absolute() bool {
	return p.host.from > p.target.from && p.host.to <= p.target.to
}

// OriginForm returns Target without scheme and authority: path and query as they were
// sent. It may be empty for an absolute URL, and is always empty for CONNECT.
func (p *RequestParser) OriginForm() []byte {
	if from := p.target.from; p.base[from] != '/' && p.host.from >= from && p.host.to <= p.target.to {
		return p.text(span{p.host.to, p.target.to})
	}
	return p.Target()
}

// Host returns the authority of the target or, if it has none, the value of the Host
// field. It is empty if there is neither.
func (p *RequestParser) Host() []byte { return p.text(p.host) }

// Length returns the length of the body: 0 without a body, -1 for a chunked one.
func (p *RequestParser) Length() int64 {
	if p.Chunked() {
		return -1
	}
	return max(p.length, 0)
}

// ExpectsContinue reports whether the client waits for a 100 response before it sends
// the body. An HTTP/1.0 client never does.
func (p *RequestParser) ExpectsContinue() bool {
	return p.facts&sawExpect != 0 && p.version == HTTP11 && p.Length() != 0
}

// Upgrade returns the value of the Upgrade field: the protocols that the client
// prefers. It is nil if the request is no valid request for an upgrade.
func (p *RequestParser) Upgrade() []byte {
	if p.facts&connUpgrade == 0 || p.version != HTTP11 {
		return nil
	}
	return p.Get("Upgrade")
}

// requestLine parses the first line if it is complete.
func (p *parser) requestLine(b []byte) (bool, *Error) {
	i := 0
	for i < len(b) && class[b[i]]&inToken != 0 {
		i++
	}
	switch {
	case i == 0:
		// One byte decides: input that does not begin with a token is a TLS
		// handshake or an empty line, and may never have an LF.
		return false, firstLineFault(b[0], ErrMethod)
	case i >= len(b):
		return false, nil
	case b[i] != ' ':
		return p.lineError(b, 0, firstLineFault(b[i], ErrMethod))
	}
	p.method = span{0, uint32(i)}
	i++
	from := i
	if i < len(b) && b[i] == '/' && !isConnect(b[:i-1]) {
		i = pathEnd(b, i)
	} else {
		// The other forms are rare. They are parsed once the line is complete.
		if done, err := p.lineError(b, 0, ErrTarget); err != ErrTarget {
			return done, err
		}
		if isPreface(b) {
			return false, ErrHTTP2
		}
		if i = p.otherTarget(b, i); i < 0 {
			return false, ErrTarget
		}
	}
	switch {
	case i >= len(b):
		return false, nil
	case b[i] != ' ':
		return p.lineError(b, 0, firstLineFault(b[i], ErrTarget))
	}
	p.target = span{uint32(from), uint32(i)}
	return p.requestVersion(b, i+1)
}

// requestVersion parses the rest of the line, from i on.
func (p *parser) requestVersion(b []byte, i int) (bool, *Error) {
	const length = len("HTTP/1.1\r\n")
	if len(b)-i >= length && string(b[i:i+length]) == "HTTP/1.1\r\n" {
		p.version = HTTP11
	} else if len(b)-i >= length && string(b[i:i+length]) == "HTTP/1.0\r\n" {
		p.version = HTTP10
	} else {
		return p.lineError(b, 0, versionFault(b[i:]))
	}
	p.pos = i + length
	if p.pos > p.maxPos {
		return false, p.tooLong()
	}
	return true, nil
}

// versionFault returns the error for a line that does not end with a supported version
// and CRLF. The result matters only if the line is complete.
func versionFault(b []byte) *Error {
	if len(b) < len("HTTP/1.1\n") || string(b[:5]) != "HTTP/" || b[5]-'0' > 9 || b[6] != '.' || b[7]-'0' > 9 {
		return ErrVersion
	}
	switch {
	case b[8] == '\n':
		return ErrBareLF
	case len(b) < 10 || b[8] != '\r' || b[9] != '\n':
		return ErrVersion
	}
	return ErrVersionUnsupported
}

// firstLineFault returns the error for a first line that ends too early at c, or other
// if it continues with an invalid byte.
func firstLineFault(c byte, other *Error) *Error {
	if c == '\r' || c == '\n' {
		return ErrRequestLine
	}
	return other
}

func isConnect(method []byte) bool { return string(method) == "CONNECT" }

// isPreface reports whether b begins with the first line that an HTTP/2 client sends if
// it assumes that the server speaks HTTP/2.
func isPreface(b []byte) bool {
	const line = "PRI * HTTP/2.0\r\n"
	return len(b) >= len(line) && string(b[:len(line)]) == line
}
