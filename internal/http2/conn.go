package http2

import (
	"time"

	"golang.org/x/net/http2/hpack"
)

// Conn is one side of a connection. Create one with Shared.NewConn.
type Conn struct {
	// Out has the frames to send. The caller sends them and sets Out to an empty buffer,
	// or to nil while the connection is idle.
	Out []byte
	// Now is the time on the caller's clock, set before Parse. Limits of rates need it.
	Now time.Duration

	sh      *Shared
	decoder *hpack.Decoder // nil before the first header
	streams []*Stream      // open and kept, by number
	rare    *rarities      // nil for most

	// The frame that is being read.
	frame  frameHead
	stream *Stream // of the last event, or of the DATA frame; nil for DATA that is dropped
	code   Code    // of the last Reset, Failed or Goodbye
	left   int32   // bytes of DATA that are still to come
	pad    int32   // bytes of padding after them
	at     position
	ends   bool // the last Head ends its message
	phase  connPhase

	// Flow control and settings.
	send       int32 // bytes of DATA that may be sent on all streams together
	recv       int32 // bytes of DATA that the peer may send
	owed       int32 // consumed bytes that the peer may send again, and does not know yet
	peerWindow int32 // of the peer's new streams
	peerFrame  int32 // largest frame that the peer accepts
	peerMax    uint32
	lastPeer   uint32 // highest stream that the peer has begun
	lastOwn    uint32 // highest stream that this side has begun
	lastID     uint32 // of the peer's GOAWAY
	farewell   uint32 // highest stream that this side answers after LeaveFinally
	pings      uint32 // own PINGs that have no answer
	table      tableState
	connects   bool // the peer accepts extended CONNECT
	departs    bool // the peer has sent GOAWAY
	calm       calm
}

// rarities are what a connection needs only at times.
type rarities struct {
	held    []byte   // the beginning of a frame that has come in part
	block   *block   // a header block that continues
	refused []uint32 // streams that this side has reset last; the peer may not know it yet
}

func (c *Conn) ensureRare() *rarities {
	if c.rare == nil {
		c.rare = &rarities{}
	}
	return c.rare
}

// held returns the beginning of a frame that has come in part.
func (c *Conn) held() []byte {
	if c.rare == nil {
		return nil
	}
	return c.rare.held
}

// block returns the header block that continues, nil if there is none.
func (c *Conn) block() *block {
	if c.rare == nil {
		return nil
	}
	return c.rare.block
}

// block is a header block that continues in further frames.
type block struct {
	frame  frameHead
	fault  bool // the stream depends on itself
	data   []byte
	frames int
}

// tableState is whether the peer has to be told that no table is used.
type tableState uint8

const (
	tableUnsaid tableState = iota // the peer keeps an empty table of the default size
	tableOwed                     // the peer has made it smaller, and the next header has to say so
	tableNone                     // the peer knows that the table has no size
)

// position is what the next bytes are.
type position uint8

const (
	atPreface position = iota
	atFrame
	atPadLength
	atData
	atPadding
)

// connPhase is how far a connection is. The package comment draws it.
type connPhase uint8

const (
	connGreeting connPhase = iota // the peer's SETTINGS have not come
	connOpen
	connLeaving // a GOAWAY that refuses nothing was sent
	connLeft    // a GOAWAY with the last stream was sent
	connFailed  // a GOAWAY with an error was sent; nothing more is read
)

// connNext has the phases that can follow each phase, as bits.
var connNext = [...]uint8{
	connGreeting: 1<<connOpen | 1<<connLeft | 1<<connFailed,
	connOpen:     1<<connLeaving | 1<<connLeft | 1<<connFailed,
	connLeaving:  1<<connLeft | 1<<connFailed,
	connLeft:     1 << connFailed,
	connFailed:   0,
}

// enter changes the phase. It panics if that is a change that cannot happen.
func (c *Conn) enter(next connPhase) {
	if connNext[c.phase]&(1<<next) == 0 {
		panic("http2: internal error: a connection cannot change its phase like this")
	}
	c.phase = next
}

// NewConn returns a connection, with the preface of a client and SETTINGS in Out.
func (sh *Shared) NewConn(out []byte) *Conn {
	c := &Conn{
		Out: out, sh: sh,
		send: defaultWindow, recv: int32(sh.config.ConnWindow), peerWindow: defaultWindow,
		peerFrame: defaultFrame, peerMax: 100,
	}
	if sh.config.Role == Client {
		c.at = atFrame
		c.Out = append(c.Out, Preface...)
		c.lastOwn = ^uint32(0) // the first stream is 1
	}
	c.calm.init()
	c.greet()
	return c
}

// Head returns the header of the last Head, or the trailers of the last End.
func (c *Conn) Head() *Header { return &c.sh.head }

// ID returns the stream of the last Head.
func (c *Conn) ID() uint32 { return c.frame.id }

// Ends reports whether the last Head ends its message.
func (c *Conn) Ends() bool { return c.ends }

// Data returns a piece of the body of Stream. It is valid until the next call of Parse.
func (c *Conn) Data() []byte { return c.sh.data }

// Stream returns the stream of the last event. For Head it is nil on a server, and the
// stream of the request on a client.
func (c *Conn) Stream() *Stream { return c.stream }

// Code returns why the peer or Parse has reset Stream, or why the peer leaves.
func (c *Conn) Code() Code { return c.code }

// LastID returns the last stream that the peer answers, after Goodbye.
func (c *Conn) LastID() uint32 { return c.lastID }

// Departs reports whether the peer has sent GOAWAY: it takes no new requests.
func (c *Conn) Departs() bool { return c.departs }

// Connects reports whether the peer accepts extended CONNECT.
func (c *Conn) Connects() bool { return c.connects }

// Greeted reports whether the peer's SETTINGS have come.
func (c *Conn) Greeted() bool { return c.phase != connGreeting }

// Streams returns the open streams by number. The slice must not be kept or changed.
func (c *Conn) Streams() []*Stream { return c.streams }

// Partial reports whether a header, or the beginning of the connection, has come in part.
func (c *Conn) Partial() bool {
	return c.phase == connGreeting || c.block() != nil || len(c.held()) > 0
}

// Leaving reports whether the connection takes no new streams, or soon will not.
func (c *Conn) Leaving() bool { return c.phase >= connLeaving }

// Over reports whether the connection has said its last GOAWAY.
func (c *Conn) Over() bool { return c.phase >= connLeft }

// Parse reads data up to the next event. It returns how many bytes it has used.
func (c *Conn) Parse(data []byte) (n int, event Event, err error) {
	for {
		if c.phase == connFailed {
			return len(data), More, nil
		}
		if c.calm.quick <= 0 {
			c.calm.quick = calmQuick
			return n, Hasty, nil
		}
		used, ok := 0, true
		event = More
		switch c.at {
		case atPreface:
			used, ok, err = c.readPreface(data[n:])
		case atFrame:
			used, event, ok, err = c.readFrame(data[n:])
		case atPadLength:
			used, ok, err = c.readPadLength(data[n:])
		case atData:
			used, event, ok = c.readData(data[n:])
		case atPadding:
			used, event, ok = c.readPadding(data[n:])
		}
		n += used
		switch {
		case err != nil:
			return n, More, c.fail(err.(*Error))
		case event != More || !ok:
			return n, event, nil
		}
	}
}

// fail ends the connection.
func (c *Conn) fail(e *Error) error {
	c.enter(connFailed)
	c.Out = appendGoAway(c.Out, c.lastPeer, e.Code, e.text)
	c.rare, c.stream = nil, nil
	return e
}

func (c *Conn) readPreface(data []byte) (n int, ok bool, err error) {
	seen := int(c.left) // no frame has begun
	n = min(len(data), len(Preface)-seen)
	if string(data[:n]) != Preface[seen:seen+n] {
		return n, false, ErrPreface
	}
	if c.left += int32(n); int(c.left) < len(Preface) {
		return n, false, nil
	}
	c.at, c.left = atFrame, 0
	c.calm.since = c.Now
	return n, true, nil
}

// readFrame reads a frame, or only its beginning if it is DATA.
func (c *Conn) readFrame(data []byte) (n int, event Event, ok bool, err error) {
	var payload []byte
	if n, payload, ok, err = c.nextFrame(data); !ok || err != nil {
		return n, More, false, err
	}
	switch f := c.frame; {
	case c.block() != nil && f.kind != frameContinuation:
		return n, More, false, ErrContinuation
	case c.phase == connGreeting && (f.kind != frameSettings || f.has(flagAck)):
		return n, More, false, ErrFirstFrame
	}
	event, err = c.dispatch(payload)
	return n, event, true, err
}

// nextFrame completes the next frame, except for the payload of DATA. It keeps what has
// come in part.
func (c *Conn) nextFrame(data []byte) (n int, payload []byte, ok bool, err error) {
	if len(c.held()) == 0 {
		if len(data) >= frameHeadSize {
			c.frame = readFrameHead(data)
			if int(c.frame.length) > c.sh.config.MaxFrame {
				return 0, nil, false, ErrFrameTooLarge
			}
			if c.frame.kind == frameData {
				return frameHeadSize, nil, true, nil
			}
			if end := frameHeadSize + int(c.frame.length); end <= len(data) {
				return end, data[frameHeadSize:end], true, nil
			}
		}
		if len(data) > 0 {
			c.ensureRare().held = append(c.held(), data...)
		}
		return len(data), nil, false, nil
	}
	r := c.rare
	if missing := frameHeadSize - len(r.held); missing > 0 {
		n = min(missing, len(data))
		r.held = append(r.held, data[:n]...)
		if n < missing {
			return n, nil, false, nil
		}
	}
	if c.frame = readFrameHead(r.held); int(c.frame.length) > c.sh.config.MaxFrame {
		return n, nil, false, ErrFrameTooLarge
	}
	if c.frame.kind == frameData {
		r.held = nil
		return n, nil, true, nil
	}
	missing := frameHeadSize + int(c.frame.length) - len(r.held)
	some := min(missing, len(data)-n)
	r.held = append(r.held, data[n:n+some]...)
	n += some
	if some < missing {
		return n, nil, false, nil
	}
	payload, r.held = r.held[frameHeadSize:], nil
	return n, payload, true, nil
}

// dispatch handles a complete frame, or the beginning of DATA.
func (c *Conn) dispatch(payload []byte) (Event, error) {
	switch c.frame.kind {
	case frameData:
		return c.onData()
	case frameHeaders:
		return c.onHeaders(payload)
	case frameContinuation:
		return c.onContinuation(payload)
	case framePriority:
		return c.onPriority(payload)
	case frameReset:
		return c.onReset(payload)
	case frameSettings:
		return c.onSettings(payload)
	case framePush:
		return More, ErrPush
	case framePing:
		return c.onPing(payload)
	case frameGoAway:
		return c.onGoAway(payload)
	case frameWindow:
		return c.onWindow(payload)
	case framePriorityNew:
		return c.onPriorityUpdate(payload)
	}
	return More, c.spend(1) // of an extension
}

// begun reports whether a stream with that number was begun, and possibly closed.
func (c *Conn) begun(id uint32) bool {
	if c.isPeers(id) {
		return id <= c.lastPeer
	}
	return id <= c.lastOwn && c.lastOwn != ^uint32(0)
}

// isPeers reports whether the peer begins streams with that number.
func (c *Conn) isPeers(id uint32) bool { return (id%2 == 1) == (c.sh.config.Role == Server) }
