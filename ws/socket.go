package ws

import (
	"errors"
	"io"
	"net"
	"time"

	"github.com/spindleloop/spindle/internal/wsframe"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// Handler is told what happens to a Socket, on its loop. One handler can serve one
// Socket or many.
type Handler interface {
	// OnOpen is the first call for a Socket.
	OnOpen(s *Socket)
	// OnMessage brings a message. The slice is only lent: what is to be kept
	// must be copied.
	OnMessage(s *Socket, kind Kind, message []byte)
	// OnClose is the last call. Err is a *CloseError if the peer has sent a
	// Close, a *ProtocolError if it was cut off for what it sent, net.ErrClosed
	// after Abort, and otherwise what has broken the connection:
	// io.ErrUnexpectedEOF if it has just ended.
	OnClose(s *Socket, err error)
}

// Drainer is a Handler that wants to know when to go on sending.
type Drainer interface {
	// OnDrain tells that not much waits to be sent any more, after Full was
	// true.
	OnDrain(s *Socket)
}

// PongReceiver is a Handler that wants to know of pongs.
type PongReceiver interface {
	// OnPong brings what a Ping was sent with. The slice is only lent.
	OnPong(s *Socket, payload []byte)
}

// Socket is a WebSocket in the form of callbacks. Upgrade and Connect make them.
// Like the connection underneath it is for callbacks of its loop; from elsewhere,
// use Loop().Post.
type Socket struct {
	conn        *transport.Conn
	st          *station
	rules       *rules
	handler     Handler
	part        *part  // what there is of a message that comes in pieces, or else nil
	kept        *kept  // what few need, or else nil
	err         error  // why it ends, once that is known
	subprotocol string // as agreed
	ping        time.Duration
	timer       loop.Timer // of the pings, and then of the end
	second      uint32     // in which the last control frame came
	controls    uint32     // how many did
	state       socketState
	in          wsframe.Decoder
}

type socketState uint8

const (
	closing       socketState = 1 << iota // our Close was sent
	over                                  // what comes is dropped; waits for the peer's end
	pausedReading                         // by the user
	pausedWriting                         // by the transport
	heard                                 // something has come since the timer was set
	pinged                                // and was asked for
	doubted                               // in vain, but it may have come this moment
)

func (s *Socket) is(f socketState) bool { return s.state&f != 0 }

// kept is what a Socket has that pauses.
type kept struct {
	unread []byte // came when reading was paused
	ping   []byte // to be answered when there is room again
	isPing bool
}

// newSocket makes a Socket for a connection that is about to be told of.
func newSocket(h Handler, r rules, subprotocol string) *Socket {
	if h == nil {
		panic("ws: a nil Handler")
	}
	return &Socket{handler: h, rules: &r, subprotocol: subprotocol, ping: r.pingInterval}
}

// protocol is what a Socket is to its connection.
type protocol Socket

// ConnectionMade opens the Socket.
func (p *protocol) ConnectionMade(c *transport.Conn) {
	s := (*Socket)(p)
	s.conn = c
	s.st = stationOf(c.Loop())
	s.rules = s.st.share(s.rules)
	s.in = wsframe.NewDecoder(s.rules.role, &s.rules.limits)
	s.SetPingInterval(s.ping)
	s.handler.OnOpen(s)
}

// DataReceived reads frames.
func (p *protocol) DataReceived(c *transport.Conn, data []byte) { (*Socket)(p).receive(data) }

// PauseWriting takes note.
func (p *protocol) PauseWriting(c *transport.Conn) { p.state |= pausedWriting }

// ResumeWriting answers a ping that had to wait, and has the handler go on.
func (p *protocol) ResumeWriting(c *transport.Conn) {
	s := (*Socket)(p)
	s.state &^= pausedWriting
	if s.is(closing | over) {
		return
	}
	if k := s.kept; k != nil && k.isPing {
		s.write(wsframe.OpPong, wsframe.Fin, k.ping)
		k.ping, k.isPing = nil, false
	}
	if d, ok := s.handler.(Drainer); ok {
		d.OnDrain(s)
	}
}

// ConnectionLost closes the Socket.
func (p *protocol) ConnectionLost(c *transport.Conn, err error) {
	s := (*Socket)(p)
	s.timer.Cancel()
	s.state |= closing | over
	s.dropPart()
	s.kept = nil
	if s.err == nil {
		s.err = err
	}
	if s.err == nil {
		s.err = io.ErrUnexpectedEOF
	}
	s.handler.OnClose(s, s.err)
}

// Loop is the loop that the Socket is on. It may be asked for from any goroutine,
// once OnOpen was called.
func (s *Socket) Loop() *loop.Loop { return s.conn.Loop() }

// Conn is the connection underneath, for its addresses and options.
func (s *Socket) Conn() *transport.Conn { return s.conn }

// Subprotocol is what was agreed on, "" if nothing.
func (s *Socket) Subprotocol() string { return s.subprotocol }

// Compressed tells whether the peer takes compressed messages.
func (s *Socket) Compressed() bool { return s.rules.limits.Deflate }

// PauseReading stops OnMessage until ResumeReading: what the peer sends then waits
// in the system, and at last with the peer.
func (s *Socket) PauseReading() {
	s.conn.PauseReading()
	if !s.is(closing | over) {
		s.state |= pausedReading
	}
}

// ResumeReading lets messages come again.
func (s *Socket) ResumeReading() {
	if !s.is(pausedReading) {
		return
	}
	s.state = s.state&^pausedReading | heard
	k := s.kept
	if k == nil || len(k.unread) == 0 {
		s.conn.ResumeReading()
		return
	}
	// What has come before goes first, and not inside this call.
	s.Loop().CallSoon(func() {
		if s.is(pausedReading) || s.conn.IsClosing() {
			return
		}
		unread := k.unread
		k.unread = nil
		s.guarded(func() { s.receive(unread) })
		if !s.is(pausedReading) {
			s.conn.ResumeReading()
		}
	})
}

// guarded is for calls of the handler that do not come from the transport: one that
// panics loses its connection, and the loop's OnPanic hears of it.
func (s *Socket) guarded(callback func()) {
	returned := false
	defer func() {
		if !returned {
			s.end(errPanicked)
		}
	}()
	callback()
	returned = true
}

var errPanicked = errors.New("ws: the handler panicked")

// end ends the connection at once.
func (s *Socket) end(why error) {
	if s.err == nil && !s.conn.IsClosing() { // else it has ended for another reason
		s.err = why
	}
	s.conn.Abort()
}

// Abort ends the connection at once, without a Close: the peer learns nothing, and
// what waits to be sent is dropped.
func (s *Socket) Abort() { s.end(net.ErrClosed) }
