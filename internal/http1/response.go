package http1

import "bytes"

// ResponseParser reads the responses of a connection, one after the other. Create one
// with NewResponseParser. The package comment describes the results of its methods and
// how long they are valid.
type ResponseParser struct{ parser }

// NewResponseParser returns a parser that is ready for a response.
func NewResponseParser(l Limits) *ResponseParser {
	return &ResponseParser{newParser(l, true)}
}

// Reset makes the parser ready for a new connection, also after an error. It keeps the
// limits.
func (p *ResponseParser) Reset() {
	*p = ResponseParser{parser{limits: p.limits, responses: true, fields: p.fields[:0], buf: p.buf[:0]}}
}

// Answering sets the method of the request that the next response answers. Responses to
// HEAD and CONNECT have no body. The method applies to that response and to the interim
// responses before it.
func (p *ResponseParser) Answering(method string) {
	p.toHead, p.toConnect = method == "HEAD", method == "CONNECT"
}

// Status returns the status code, from 100 to 999.
func (p *ResponseParser) Status() int { return p.status }

// Reason returns the reason phrase, which is often empty.
func (p *ResponseParser) Reason() []byte { return p.text(p.target) }

// Length returns the value of Content-Length, or -1 without that field. For a response
// to HEAD and for a 304 it is not the length of the body.
func (p *ResponseParser) Length() int64 { return p.length }

// Interim reports whether this is an interim response, such as 100 or 103, which
// precedes the final one.
func (p *parser) Interim() bool {
	return p.responses && p.status/100 == 1 && p.status != 101
}

// statusLine parses the first line, if it is complete.
func (p *parser) statusLine(b []byte) (bool, *Error) {
	if b[0] != 'H' {
		// As for requests: a peer that does not speak HTTP may never send an LF.
		return false, ErrStatusLine
	}
	end := bytes.IndexByte(b, '\n') + 1
	switch {
	case end == 0:
		return false, nil
	case end > p.maxPos:
		return false, p.tooLong()
	case b[end-2] != '\r':
		return false, ErrBareLF
	}
	const length = len("HTTP/1.1 200")
	line := b[:end-2]
	if len(line) < length || string(line[:5]) != "HTTP/" || line[5]-'0' > 9 || line[6] != '.' || line[7]-'0' > 9 || line[8] != ' ' {
		return false, ErrStatusLine
	}
	if line[5] != '1' || line[7] > '1' {
		return false, ErrVersionUnsupported
	}
	hundreds, tens, ones := line[9]-'0', line[10]-'0', line[11]-'0'
	if hundreds > 9 || hundreds == 0 || tens > 9 || ones > 9 {
		return false, ErrStatusLine
	}
	// Many servers omit the space before an empty reason.
	reason := line[length:]
	if len(reason) > 0 {
		if reason[0] != ' ' || !isText(reason) {
			return false, ErrStatusLine
		}
		reason = reason[1:]
	}
	p.version = Version('1' - line[7])
	p.status = int(hundreds)*100 + int(tens)*10 + int(ones)
	p.target = span{uint32(len(line) - len(reason)), uint32(len(line))}
	p.pos = end
	return true, nil
}

// frameResponse selects how the body of a response is read.
func (p *parser) frameResponse() {
	switch {
	case p.status == 101, p.toConnect && p.status/100 == 2:
		p.state = atSwitch
	case p.status/100 == 1, p.status == 204, p.status == 304, p.toHead:
		p.state = atEnd
	case p.facts&(chunked|sawLength) == 0:
		p.state = atUntilClose
		p.facts |= untilClose
		p.total = 0
	default:
		p.frameBody()
	}
}

// readUntilClose reads a body that ends with the connection.
func (p *parser) readUntilClose(data []byte) (int, Event, error) {
	if len(data) == 0 {
		return 0, More, nil
	}
	if limit := p.limits.BodyBytes; limit > 0 {
		if p.total == limit {
			return 0, More, p.fail(ErrBodyTooLarge)
		}
		data = data[:min(int64(len(data)), limit-p.total)]
		p.total += int64(len(data))
	}
	p.data = data
	return len(data), Data, nil
}
