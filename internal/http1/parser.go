package http1

import "bytes"

// state is where in a message a parser is.
type state uint8

const (
	atFirstLine state = iota // before or within it
	atFields
	atTrailer
	atLength     // in a body of known length
	atUntilClose // in a body that ends with the connection
	atEnd        // End is what comes next
	atSwitch     // Switch is
	atFailed

	// Within a chunked body: everything but the data is read byte by byte.
	atChunkSize
	atChunkExtension
	atChunkSizeLF
	atChunkData
	atChunkDataCR
	atChunkDataLF
)

// facts are what the fields of a header have said.
type facts uint16

const (
	sawHost facts = 1 << iota
	sawLength
	sawEncoding
	sawExpect
	sawTrailer // there is a field Trailer
	chunked
	connClose
	connKeepAlive
	connUpgrade
	untilClose
	foreignExpectation
	malformedCoding
	unsupportedCoding
	forbiddenTrailer
)

// span is a part of base.
type span struct{ from, to uint32 }

// field is a line of a header or trailer section. Offsets take a third of the room
// of two slices, can move to another buffer, and are nothing to the collector.
type field struct{ name, value span }

// parser is what RequestParser and ResponseParser have in common: lines, fields
// and bodies.
type parser struct {
	limits    Limits
	responses bool

	state  state
	facts  facts
	failed *Error

	version  Version
	status   int
	headless bool // the response is to HEAD: it has no body
	tunnel   bool // the response is to CONNECT

	base   []byte // what offsets are into: the last data, or buf
	buf    []byte // what came of a head or trailer section that is in pieces
	pos    int    // in base: the end of the last line that was parsed
	most   int    // in base: where the section has to have ended
	fields []field

	method, target, host span // or the reason, in target

	length    int64  // as Content-Length says; -1 if it does not
	remaining int64  // of the body, or of the chunk
	size      uint64 // of the chunk, as far as its digits are known
	digits    int    // of that
	extension int    // bytes of chunk extensions so far
	total     int64  // of chunks so far
	data      []byte // what Data returns
}

// kept is the largest buffer that is kept for the next head in pieces.
const kept = 4096

func newParser(l Limits, responses bool) parser {
	return parser{limits: l.withDefaults(), responses: responses, fields: make([]field, 0, 16)}
}

// Parse looks for the next event in data and tells how many bytes of it are used.
// Together with an error nothing else is meaningful.
func (p *parser) Parse(data []byte) (n int, event Event, err error) {
	switch p.state {
	case atFirstLine, atFields:
		return p.head(data)
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
		return p.rest(data)
	case atSwitch:
		p.fields = p.fields[:0]
		return 0, Switch, nil
	case atFailed:
		return 0, More, p.failed
	default:
		return p.chunks(data)
	}
}

// Idle reports whether the parser is between messages. Then it holds nothing that
// belongs to a connection.
func (p *parser) Idle() bool { return p.state == atFirstLine && len(p.buf) == 0 }

// EOF tells the parser that no more data will come. The event is End if that
// completes a message, and More if there is none under way.
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

// end makes ready for the next message.
func (p *parser) end() Event {
	p.state = atFirstLine
	p.buf = p.buf[:0]
	if cap(p.buf) > kept {
		p.buf = nil
	}
	if !p.Interim() {
		p.headless, p.tunnel = false, false
	}
	return End
}

// fail ends all parsing.
func (p *parser) fail(err *Error) error {
	p.state = atFailed
	p.failed = err
	return err
}

// head parses in place what comes in one piece. Otherwise it gathers lines in buf.
func (p *parser) head(data []byte) (int, Event, error) {
	if len(p.buf) == 0 {
		if len(data) == 0 {
			return 0, More, nil
		}
		p.begin()
	}
	n, done, err := p.section(data)
	switch {
	case err != nil:
		return 0, More, p.fail(err)
	case !done:
		return n, More, nil
	}
	if err := p.understand(); err != nil {
		return 0, More, p.fail(err)
	}
	return n, Head, nil
}

// begin forgets the message before.
func (p *parser) begin() {
	p.state = atFirstLine
	p.facts = 0
	p.pos, p.most = 0, p.limits.RequestLine
	p.fields = p.fields[:0]
	p.host = span{}
	p.length = -1
}

// section parses what data has of a head or trailer section. A line is judged once
// it is complete, or too long, wherever the cuts are: that makes errors the same
// for all of them, and parsing a line once bounds the work.
func (p *parser) section(data []byte) (n int, done bool, err *Error) {
	if len(p.buf) == 0 {
		p.base = data
		done, err = p.lines(data)
		if done || err != nil {
			return p.pos, done, err
		}
		if len(data) > p.most {
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
		if len(p.buf)+len(piece) > p.most {
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
		p.most = p.pos + p.limits.HeaderBytes
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

// wrong is what to return for a line that starts at from and is not as it should
// be: nothing yet, if it has not ended.
func (p *parser) wrong(b []byte, from int, err *Error) (bool, *Error) {
	lf := bytes.IndexByte(b[from:], '\n')
	switch {
	case lf < 0:
		return false, nil
	case from+lf+1 > p.most:
		return false, p.tooLong()
	}
	return false, err
}
