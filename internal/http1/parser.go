package http1

import "bytes"

// state is the position of a parser in a message.
type state uint8

const (
	atFirstLine state = iota // before or within the first line
	atFields
	atTrailer
	atLength     // in a body of known length
	atUntilClose // in a body that ends with the connection
	atEnd        // the next event is End
	atSwitch     // the next event is Switch
	atFailed

	// Within a chunked body, all but the data is read byte by byte.
	atChunkSize
	atChunkExtension
	atChunkSizeLF
	atChunkData
	atChunkDataCR
	atChunkDataLF
)

// facts are the statements of a header's fields about the message.
type facts uint16

const (
	sawHost facts = 1 << iota
	sawLength
	sawEncoding
	sawExpect
	sawTrailer // there is a Trailer field
	chunked
	connClose
	connKeepAlive
	connUpgrade
	untilClose
	unknownExpectation
	malformedCoding
	unsupportedCoding
	forbiddenTrailer
)

// span is a part of base.
type span struct{ from, to uint32 }

// field is a line of a header or trailer section. Offsets take a third of the space of
// two slices, stay valid in another buffer, and cost the garbage collector nothing.
type field struct{ name, value span }

// parser is the common part of RequestParser and ResponseParser: lines, fields and
// bodies.
type parser struct {
	limits    Limits
	responses bool

	state  state
	facts  facts
	failed *Error

	version   Version
	status    int
	toHead    bool // the response answers HEAD: it has no body
	toConnect bool // the response answers CONNECT

	base   []byte // the buffer that offsets refer to: the last data, or buf
	buf    []byte // the part received of a head or trailer section in pieces
	pos    int    // in base: the end of the last parsed line
	maxPos int    // in base: the limit for the end of the section
	fields []field
	known  []byte // a valid host, mostly that of the next request

	method, target, host span // target holds the reason of a response

	length    int64  // the value of Content-Length, or -1
	remaining int64  // bytes that are missing of the body or the chunk
	size      uint64 // the chunk's size, from the digits read so far
	digits    int    // the number of those digits
	extension int    // bytes of chunk extensions so far
	total     int64  // bytes of chunks so far
	data      []byte // what Data returns
}

// maxIdleBuffer is the largest buffer that a parser keeps between messages.
const maxIdleBuffer = 4096

func newParser(l Limits, responses bool) parser {
	return parser{limits: l.withDefaults(), responses: responses, fields: make([]field, 0, 16)}
}

// Parse finds the next event in data and returns the number of bytes it used. If it
// returns an error, its other results are meaningless.
func (p *parser) Parse(data []byte) (n int, event Event, err error) {
	switch p.state {
	case atFirstLine, atFields:
		return p.readHead(data)
	case atLength:
		k := min(p.remaining, int64(len(data)))
		if k == 0 {
			return 0, More, nil
		}
		p.remaining -= k
		if p.remaining == 0 {
			p.state = atEnd
		}
		p.data = data[:k]
		return int(k), Data, nil
	case atEnd:
		p.fields = p.fields[:0]
		return 0, p.end(), nil
	case atUntilClose:
		return p.readUntilClose(data)
	case atSwitch:
		p.fields = p.fields[:0]
		return 0, Switch, nil
	case atFailed:
		return 0, More, p.failed
	default:
		return p.readChunked(data)
	}
}

// Idle reports whether the parser is between messages. An idle parser holds no data of
// a connection.
func (p *parser) Idle() bool { return p.state == atFirstLine && len(p.buf) == 0 }

// EOF reports the end of the input to the parser. It returns End if that completes a
// message, and More if the parser is idle.
func (p *parser) EOF() (Event, error) {
	switch {
	case p.Idle():
		return More, nil
	case p.state == atEnd || p.state == atUntilClose:
		p.fields = p.fields[:0]
		return p.end(), nil
	case p.state == atSwitch:
		return Switch, nil
	case p.state == atFailed:
		return More, p.failed
	}
	return More, p.fail(ErrUnexpectedEOF)
}

// end makes the parser ready for the next message.
func (p *parser) end() Event {
	p.state = atFirstLine
	p.buf = p.buf[:0]
	if cap(p.buf) > maxIdleBuffer {
		p.buf = nil
	}
	if !p.Interim() {
		p.toHead, p.toConnect = false, false
	}
	return End
}

// fail records err as the result of this and every later call.
func (p *parser) fail(err *Error) error {
	p.state = atFailed
	p.failed = err
	return err
}

// readHead parses a head in place if it comes in one piece. Otherwise it collects the
// head's lines in buf.
func (p *parser) readHead(data []byte) (int, Event, error) {
	if len(p.buf) == 0 {
		if len(data) == 0 {
			return 0, More, nil
		}
		p.begin()
	}
	n, done, err := p.readSection(data)
	switch {
	case err != nil:
		return 0, More, p.fail(err)
	case !done:
		return n, More, nil
	}
	if err := p.finishHead(); err != nil {
		return 0, More, p.fail(err)
	}
	return n, Head, nil
}

// begin clears the state of the previous message.
func (p *parser) begin() {
	p.state = atFirstLine
	p.facts = 0
	p.pos, p.maxPos = 0, p.limits.RequestLine
	p.fields = p.fields[:0]
	p.host = span{}
	p.length = -1
}

// readSection parses the part of a head or trailer section in data. It checks a line
// once it is complete or too long. So errors do not depend on how the input is split,
// and parsing each line once bounds the work.
func (p *parser) readSection(data []byte) (n int, done bool, err *Error) {
	if len(p.buf) == 0 {
		p.base = data
		done, err = p.lines(data)
		if done || err != nil {
			return p.pos, done, err
		}
		if len(data) > p.maxPos {
			return 0, false, p.tooLong()
		}
		p.buf = append(p.buf, data...)
		p.base = p.buf
		return len(data), false, nil
	}
	for n < len(data) {
		piece := data[n:]
		lf := bytes.IndexByte(piece, '\n')
		if lf >= 0 {
			piece = piece[:lf+1]
		}
		if len(p.buf)+len(piece) > p.maxPos {
			return 0, false, p.tooLong()
		}
		p.buf = append(p.buf, piece...)
		p.base = p.buf
		n += len(piece)
		if lf < 0 {
			break
		}
		done, err = p.lines(p.buf)
		if done || err != nil {
			return n, done, err
		}
	}
	return n, false, nil
}

// lines parses the complete lines of b from pos on.
func (p *parser) lines(b []byte) (done bool, err *Error) {
	if p.state == atFirstLine {
		if p.responses {
			done, err = p.statusLine(b)
		} else {
			done, err = p.requestLine(b)
		}
		if !done || err != nil {
			return false, err
		}
		p.state = atFields
		p.maxPos = p.pos + p.limits.HeaderBytes
	}
	return p.fieldLines(b)
}

func (p *parser) tooLong() *Error {
	switch {
	case p.state == atFirstLine && p.responses:
		return ErrStatusLineTooLong
	case p.state == atFirstLine:
		return ErrRequestLineTooLong
	case p.state == atTrailer:
		return ErrTrailerTooLarge
	}
	return ErrHeaderTooLarge
}

// lineError returns err for an invalid line that starts at from, once the line is
// complete. Before that it returns no error.
func (p *parser) lineError(b []byte, from int, err *Error) (bool, *Error) {
	lf := bytes.IndexByte(b[from:], '\n')
	switch {
	case lf < 0:
		return false, nil
	case from+lf+1 > p.maxPos:
		return false, p.tooLong()
	}
	return false, err
}
