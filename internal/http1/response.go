package http1

import "bytes"

// ResponseParser reads the responses of a connection, one after the other. Make one
// with NewResponseParser. The package's documentation says what its methods return,
// and for how long.
type ResponseParser struct{ parser }

// NewResponseParser returns a parser that waits for a response.
func NewResponseParser(l Limits) *ResponseParser {
	return &ResponseParser{newParser(l, true)}
}

// Reset forgets everything but the limits, after an error too.
func (p *ResponseParser) Reset() {
	*p = ResponseParser{parser{limits: p.limits, responses: true, fields: p.fields[:0], buf: p.buf[:0]}}
}

// Answering tells which method the next response is to, if it is HEAD or CONNECT:
// theirs have no body. It holds for that one response, and the interim ones before.
func (p *ResponseParser) Answering(method string) {
	p.headless, p.tunnel = method == "HEAD", method == "CONNECT"
}

// Status is the response's, from 100 to 999.
func (p *ResponseParser) Status() int { return p.status }

// Reason is the text beside the status; often it is empty.
func (p *ResponseParser) Reason() []byte { return p.text(p.target) }

// Length is what Content-Length says, which for a response to HEAD and for a 304
// is not the length of the body; -1 if it says nothing.
func (p *ResponseParser) Length() int64 { return p.length }

// Interim reports whether this is not yet the response but a word in advance, as
// 100 and 103 are.
func (p *parser) Interim() bool {
	return p.responses && p.status/100 == 1 && p.status != 101
}

// statusLine parses the first line, if it is complete.
func (p *parser) statusLine(b []byte) (bool, *Error) {
	if b[0] != 'H' {
		// As for requests: what is not HTTP at all need not have an LF.
		return false, ErrStatusLine
	}
	end := bytes.IndexByte(b, '\n') + 1
	switch {
	case end == 0:
		return false, nil
	case end > p.most:
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
	// Many leave out the space before a reason that is not there.
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

// frameResponse sets where the body goes from here.
func (p *parser) frameResponse() {
	switch {
	case p.status == 101, p.tunnel && p.status/100 == 2:
		p.state = atSwitch
	case p.status/100 == 1, p.status == 204, p.status == 304, p.headless:
		p.state = atEnd
	case p.facts&(chunked|sawLength) == 0:
		p.state = atUntilClose
		p.facts |= untilClose
		p.total = 0
	default:
		p.frame()
	}
}

// rest is for a body that ends with the connection.
func (p *parser) rest(data []byte) (int, Event, error) {
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
