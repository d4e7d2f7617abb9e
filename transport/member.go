package transport

import (
	"sync"
	"sync/atomic"

	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/loop"
)

// member is a loop's part of a GroupServer.
type member struct {
	gs *GroupServer
	st *station
	s  *Server        // of the connections; it does not listen itself
	ln *sock.Listener // nil where another loop accepts; its methods are for the loop's goroutine

	shared bool // the socket has other owners, and must not be shut down

	load  atomic.Int64 // connections, also those on their way here
	waits atomic.Bool  // its listener is paused until there is room

	mu      sync.Mutex
	file    sock.File // guarded by mu
	fds     []int     // handed over, and not taken yet; guarded by mu
	stopped bool      // the listener is closed; guarded by mu
	gone    bool      // the loop is closed; guarded by mu
}

// listen binds the member's own socket.
func (m *member) listen(network, address string) error {
	fd, err := m.st.bind(network, address, sock.Binding{
		Backlog:   m.gs.o.Backlog,
		ReusePort: m.gs.o.ReusePort,
	})
	if err != nil {
		return err
	}
	return m.watch(fd)
}

// watch accepts on fd, a socket that listens. It closes fd if it fails.
func (m *member) watch(fd int) (err error) {
	gs, hub := m.gs, m.st.hub
	if gs.addr, err = hub.K.LocalAddr(fd); err == nil {
		if !m.shared {
			m.file = sock.Claim(hub.K, gs.addr)
		}
		m.ln, err = hub.Listen(fd, m.accept, m.failed)
	}
	if err != nil {
		m.file.Remove(hub.K)
		hub.K.CloseFD(fd)
	}
	return sock.Error("listen", gs.network, nil, nil, err)
}

// begin makes the server of the member's connections. The limit is the member's.
func (m *member) begin() {
	o := m.gs.o.Options
	o.MaxConns = 0
	m.s = &Server{st: m.st, o: o, network: m.gs.network, addr: m.gs.addr, closed: true, left: m.forget}
	m.st.servers = append(m.st.servers, m)
}

// refuse ends the listener from any goroutine: the socket is shut, which the loop
// hears of as an event, and closes it. Where the system can, that is better than to
// post it: a loop that is stopped now would never come to it, and say so when it is
// closed. The others are as good as ended when their path is gone. A socket that
// has other owners is only closed here: to shut it down would end it for all.
func (m *member) refuse() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped { // and its number may be somebody else's
		return nil
	}
	err := m.file.Remove(m.st.hub.K)
	l := m.st.hub.L
	if (m.shared || m.st.hub.K.Native().Unlisten(m.ln.FD()) != nil) && l.Running() {
		_ = l.PostWith(loop.DropAtClose, m.stop) // if it does not run, accept or the loop's end sees to it
	}
	return err
}

// failed hears why nothing can be accepted.
func (m *member) failed(err error) {
	if m.gs.closed.Load() {
		m.stop()
		return
	}
	m.s.failed(err)
}

// stop ends the listener, on its loop or before that runs.
func (m *member) stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ln == nil || m.stopped {
		return
	}
	m.stopped = true
	m.ln.Close()
	m.file.Remove(m.st.hub.K)
}

// accept gives a new connection to a loop. It is counted before the server is seen to
// be open, and Drain looks at the count after it has closed the server: so one of
// the two sees the other.
func (m *member) accept(fd int) {
	to := m.gs.pick(m)
	to.load.Add(1)
	m.gs.open.Add(1)
	switch {
	case m.gs.closed.Load():
		m.stop()
		fallthrough
	case to != m && !to.give(fd):
		m.st.hub.K.CloseFD(fd)
		to.unload()
		m.finish()
	case to == m:
		m.take(fd)
	}
	m.holdBack()
}

// give hands a connection over. It is refused if the loop is closed. The list and
// not the callback holds it: a loop that is closed drops its callbacks.
func (m *member) give(fd int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone {
		return false
	}
	m.fds = append(m.fds, fd)
	// If the loop is just being closed this fails, and loopClosing has the list.
	_ = m.st.hub.L.PostWith(loop.DropAtClose, m.takeNext)
	return true
}

func (m *member) takeNext() {
	m.mu.Lock()
	fd := m.fds[0]
	m.fds = m.fds[1:]
	m.mu.Unlock()
	m.take(fd)
}

// take makes the connection. If it cannot be made, or the protocol panics, it is
// forgotten.
func (m *member) take(fd int) {
	before := m.s.conns
	defer func() {
		if m.s.conns == before {
			m.forget()
		}
	}()
	m.s.accept(fd)
}

func (m *member) hasRoom() bool {
	most := int64(m.gs.o.MaxConns)
	return most <= 0 || m.load.Load() < most
}

// holdBack stops to accept while no loop has room. Room that is made while it does
// is seen here or by forget.
func (m *member) holdBack() {
	if m.ln == nil || m.gs.hasRoom(m) {
		return
	}
	m.ln.Pause()
	m.waits.Store(true)
	if m.gs.hasRoom(m) && m.waits.CompareAndSwap(true, false) {
		m.ln.Resume()
	}
}

// forget is the end of a connection, on the member's loop.
func (m *member) forget() {
	m.unload()
	m.finish()
}

// unload counts a connection less, and lets the loop that accepts go on.
func (m *member) unload() {
	m.load.Add(-1)
	m.gs.open.Add(-1)
	from := m
	if m.gs.o.Spread != ReusePort {
		from = m.gs.members[0]
	}
	if from.waits.CompareAndSwap(true, false) {
		if from == m {
			from.ln.Resume()
			return
		}
		_ = from.st.hub.L.PostWith(loop.DropAtClose, func() { from.ln.Resume() })
	}
}

// finish tells those who wait for the last connection, if that was it.
func (m *member) finish() {
	for _, done := range m.gs.whenDrained() {
		m.st.hub.L.CallSoonWith(loop.RunAtClose, done)
	}
}

// loopClosing ends the listener, and whoever was on the way to this loop.
func (m *member) loopClosing() {
	m.st.forget(m)
	m.stop()
	m.mu.Lock()
	m.gone = true
	fds := m.fds
	m.fds = nil
	m.mu.Unlock()
	for _, fd := range fds {
		m.st.hub.K.CloseFD(fd)
		m.forget()
	}
}
