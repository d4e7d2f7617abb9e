package ws

import (
	"errors"
	"io"
	"net"

	"github.com/spindleloop/spindle/internal/wsframe"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// Handler is told what happens to a Socket, on its loop. One handler can serve one
// Socket or many; on a server with several loops it is then called by all of them.
//
// A handler that panics loses its connection. What else happens depends on the loop. The
// loops that web.Server.ListenAndServe makes log the panic and go on. On a loop of your
// own, that of a task included, loop.Options.OnPanic decides, as for every callback:
// without one the loop stops, and the server with it.
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
	conn     *transport.Conn
	rules    *rules
	handler  Handler
	kept     *kept      // what it has only at times, or else nil
	timer    loop.Timer // of the pings, and then of the end
	in       wsframe.Decoder
	second   uint16 // in which the last control frame came
	controls uint16 // how many did
	state    socketState
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

// kept is what a Socket has only at times.
type kept struct {
	message []byte // what there is of a message that comes in pieces
	unread  []byte // what came when reading was paused
	ping    []byte // to be answered when there is room again
	isPing  bool
	err     error // why the Socket ends
}

func (s *Socket) keep() *kept {
	if s.kept == nil {
		s.kept = s.rules.st.newKept()
	}
	return s.kept
}

// letGo gives back what is kept if it is nothing any more.
func (s *Socket) letGo() {
	if k := s.kept; k != nil && len(k.message) == 0 && len(k.unread) == 0 && !k.isPing && k.err == nil {
		s.kept = nil
		s.rules.st.freeKept(k)
	}
}

// ends takes note of why. The first reason counts.
func (s *Socket) ends(why error) {
	if k := s.keep(); k.err == nil {
		k.err = why
	}
}

// newSocket makes a Socket for a connection that is about to be told of.
func newSocket(h Handler, r *rules) *Socket {
	if h == nil {
		panic("ws: a nil Handler")
	}
	return &Socket{handler: h, rules: r}
}

// protocol is what a Socket is to its connection.
type protocol Socket

// ConnectionMade opens the Socket.
func (p *protocol) ConnectionMade(c *transport.Conn) {
	s := (*Socket)(p)
	s.conn = c
	s.rules = stationOf(c.Loop()).share(s.rules)
	s.SetPingInterval(s.rules.pingInterval)
	s.handler.OnOpen(s)
}

// DataReceived reads frames.
func (p *protocol) DataReceived(c *transport.Conn, data []byte) { (*Socket)(p).receive(data) }

// EOFReceived has the connection end once everything is sent, or soon: a peer that has
// ended without a Close may well read nothing any more.
func (p *protocol) EOFReceived(c *transport.Conn) bool {
	s := (*Socket)(p)
	if !s.is(over) {
		s.state |= over
		s.after(s.rules.closeTimeout, c.Abort)
	}
	return false
}

// Draining is told when the server ends: so does the Socket.
func (p *protocol) Draining(*transport.Conn) {
	_ = (*Socket)(p).Close(GoingAway, "") // one that is closing already does so
}

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
		k.isPing = false
		s.letGo()
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
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	s.ends(err)
	why := s.kept.err
	s.kept = nil
	s.handler.OnClose(s, why)
}

// Loop is the loop that the Socket is on. It may be asked for from any goroutine,
// once OnOpen was called.
func (s *Socket) Loop() *loop.Loop { return s.conn.Loop() }

// Conn is the connection underneath, for its addresses and options.
func (s *Socket) Conn() *transport.Conn { return s.conn }

// Subprotocol is what was agreed on, "" if nothing.
func (s *Socket) Subprotocol() string { return s.rules.subprotocol }

// Compressed tells whether the peer takes compressed messages.
func (s *Socket) Compressed() bool { return s.rules.limits.Deflate }

// PauseReading stops OnMessage until ResumeReading: what the peer sends then waits
// in the system, and at last with the peer.
func (s *Socket) PauseReading() {
	if !s.is(closing | over) { // else there are no messages, but the peer's Close is to be read
		s.state |= pausedReading
		s.conn.PauseReading()
	}
}

// ResumeReading lets messages come again.
func (s *Socket) ResumeReading() {
	if !s.is(pausedReading) {
		return
	}
	s.state = s.state&^pausedReading | heard
	if s.kept == nil || len(s.kept.unread) == 0 {
		s.conn.ResumeReading()
		return
	}
	// What has come before goes first, and not inside this call.
	s.Loop().CallSoonWith(loop.DropAtClose, func() {
		if s.kept == nil || s.is(pausedReading) || s.conn.IsClosing() {
			return
		}
		unread := s.kept.unread
		s.kept.unread = nil
		s.guarded(func() { s.receive(unread) })
		s.letGo()
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
	if !s.conn.IsClosing() { // else it has ended for another reason
		s.ends(why)
	}
	s.state |= over
	s.conn.Abort()
}

// Abort ends the connection at once, without a Close: the peer learns nothing, and
// what waits to be sent is dropped.
func (s *Socket) Abort() { s.end(net.ErrClosed) }
