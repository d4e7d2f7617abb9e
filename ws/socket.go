package ws

import (
	"errors"
	"io"
	"net"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/wsframe"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// Handler receives the events of a Socket, on its loop. One Handler can serve one
// Socket or many; on a server with several loops, all of them call it.
//
// If a handler panics, its connection is closed. What else happens depends on the
// loop. The loops of web.Server.ListenAndServe log the panic and continue. On a loop
// of your own, including a task's, loop.Options.OnPanic decides, as for every
// callback: without it the loop stops, and the server with it.
type Handler interface {
	// OnOpen is the first call for a Socket.
	OnOpen(s *Socket)
	// OnMessage receives a message. The slice is valid only during the call.
	OnMessage(s *Socket, kind Kind, message []byte)
	// OnClose is the last call. Err is a *CloseError if the peer has sent a Close, a
	// *ProtocolError if the peer violated the protocol, net.ErrClosed after Abort,
	// and otherwise the error of the connection: io.ErrUnexpectedEOF if it ended
	// without a Close.
	OnClose(s *Socket, err error)
}

// WriteResumer is an optional interface of a Handler that pauses sending.
type WriteResumer interface {
	// OnResumeWriting is called after Full was true, when little data waits to be
	// sent.
	OnResumeWriting(s *Socket)
}

// PongReceiver is an optional interface of a Handler that receives pongs.
type PongReceiver interface {
	// OnPong receives the payload of a Ping. The slice is valid only during the
	// call.
	OnPong(s *Socket, payload []byte)
}

// Socket is a WebSocket for callbacks. Upgrade and Connect create one. Like the
// underlying connection, it must be used on its loop; other goroutines use
// Conn().Loop().Post.
type Socket struct {
	conn     *transport.Conn
	rules    *rules
	handler  Handler
	extra    *socketExtra // state that few Sockets need; nil if there is none
	timer    loop.Timer   // for pings, later for closing
	in       wsframe.Decoder
	second   uint16 // loop time of the last control frame
	controls uint16 // control frames received in that second
	state    socketState
}

type socketState uint8

const (
	closing       socketState = 1 << iota // our Close was sent
	discarding                            // input is dropped; waits for the peer to close
	pausedReading                         // by the user
	pausedWriting                         // by the transport
	received                              // since the timer was set, data has arrived
	pinged                                // since then, a ping was sent
	overdue                               // since then, PingTimeout has passed; unread data may still be waiting
)

func (s *Socket) is(f socketState) bool { return s.state&f != 0 }

// socketExtra is the state that a Socket has only at times.
type socketExtra struct {
	message  []byte // the fragments received so far
	unread   []byte // received while reading was paused
	ping     []byte // to be answered once writing resumes
	hasPing  bool
	closeErr error // reported by OnClose
}

func (s *Socket) ensureExtra() *socketExtra {
	if s.extra == nil {
		s.extra = s.rules.st.getExtra()
	}
	return s.extra
}

// releaseExtra frees the extra state if it is empty.
func (s *Socket) releaseExtra() {
	if k := s.extra; k != nil && len(k.message) == 0 && len(k.unread) == 0 && !k.hasPing && k.closeErr == nil {
		s.extra = nil
		s.rules.st.putExtra(k)
	}
}

// setCloseErr records why the Socket closes. The first reason counts.
func (s *Socket) setCloseErr(why error) {
	if k := s.ensureExtra(); k.closeErr == nil {
		k.closeErr = why
	}
}

// newSocket returns a Socket without a connection.
func newSocket(h Handler, r *rules) *Socket {
	if h == nil {
		panic("ws: a nil Handler")
	}
	return &Socket{handler: h, rules: r}
}

// protocol implements transport.Protocol without adding methods to Socket.
type protocol Socket

// ConnectionMade opens the Socket.
func (p *protocol) ConnectionMade(c *transport.Conn) {
	s := (*Socket)(p)
	s.conn = c
	s.rules = loopStateOf(c.Loop()).share(s.rules)
	s.setPingInterval(s.rules.pingInterval)
	s.handler.OnOpen(s)
}

// DataReceived reads frames.
func (p *protocol) DataReceived(c *transport.Conn, data []byte) { (*Socket)(p).receive(data) }

// EOFReceived lets the connection close once everything is sent. It sets a deadline,
// because a peer that has ended without a Close may not read any more.
func (p *protocol) EOFReceived(c *transport.Conn) bool {
	s := (*Socket)(p)
	if !s.is(discarding) {
		s.state |= discarding
		s.after(s.rules.closeTimeout, c.Abort)
	}
	return false
}

// Draining closes the Socket when the server drains.
func (p *protocol) Draining(*transport.Conn) {
	_ = (*Socket)(p).Close(GoingAway, "") // fails only if the Socket is closing already
}

// PauseWriting records that the connection's buffer is full.
func (p *protocol) PauseWriting(c *transport.Conn) { p.state |= pausedWriting }

// ResumeWriting answers a deferred ping and calls OnResumeWriting.
func (p *protocol) ResumeWriting(c *transport.Conn) {
	s := (*Socket)(p)
	s.state &^= pausedWriting
	if s.is(closing | discarding) {
		return
	}
	if k := s.extra; k != nil && k.hasPing {
		s.write(wsframe.OpPong, wsframe.Fin, k.ping)
		k.hasPing = false
		s.releaseExtra()
	}
	if r, ok := s.handler.(WriteResumer); ok {
		r.OnResumeWriting(s)
	}
}

// ConnectionLost closes the Socket.
func (p *protocol) ConnectionLost(c *transport.Conn, err error) {
	s := (*Socket)(p)
	s.timer.Cancel()
	s.state |= closing | discarding
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	s.setCloseErr(err)
	why := s.extra.closeErr
	s.extra = nil
	s.handler.OnClose(s, why)
}

// Conn returns the underlying connection, for its addresses and options.
func (s *Socket) Conn() *transport.Conn { return s.conn }

// Subprotocol returns the negotiated subprotocol, or "" if there is none.
func (s *Socket) Subprotocol() string { return s.rules.subprotocol }

// PauseReading stops calls of OnMessage until ResumeReading. Further data stays in
// the system's buffers, and then with the peer: this is backpressure.
func (s *Socket) PauseReading() {
	if !s.is(closing | discarding) { // afterwards no messages are delivered, but the peer's Close must be read
		s.state |= pausedReading
		s.conn.PauseReading()
	}
}

// ResumeReading undoes PauseReading.
func (s *Socket) ResumeReading() {
	if !s.is(pausedReading) {
		return
	}
	s.state = s.state&^pausedReading | received
	if s.extra == nil || len(s.extra.unread) == 0 {
		s.conn.ResumeReading()
		return
	}
	// Data that arrived earlier is delivered first, and not within this call.
	s.conn.Loop().Internal().CallSoon(atclose.Drop, func() {
		if s.extra == nil || s.is(pausedReading) || s.conn.IsClosing() {
			return
		}
		unread := s.extra.unread
		s.extra.unread = nil
		s.guarded(func() { s.receive(unread) })
		s.releaseExtra()
		if !s.is(pausedReading) {
			s.conn.ResumeReading()
		}
	})
}

// guarded runs handler calls that do not come from the transport. If the handler
// panics, the connection is closed and the loop's OnPanic is called.
func (s *Socket) guarded(callback func()) {
	returned := false
	defer func() {
		if !returned {
			s.abortWith(errPanicked)
		}
	}()
	callback()
	returned = true
}

var errPanicked = errors.New("ws: the handler panicked")

// abortWith closes the connection at once; OnClose gets why.
func (s *Socket) abortWith(why error) {
	if !s.conn.IsClosing() { // otherwise it closes for another reason
		s.setCloseErr(why)
	}
	s.state |= discarding
	s.conn.Abort()
}

// Abort closes the connection at once, without a Close to the peer. Unsent data is
// dropped.
func (s *Socket) Abort() { s.abortWith(net.ErrClosed) }
