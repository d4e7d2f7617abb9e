package transport

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/loop"
)

// Spread is how connections are spread over the loops of a group.
type Spread uint8

const (
	// ReusePort has every loop listen, and the system choose by a hash of the
	// addresses: nothing is handed over, but few connections may be spread
	// unevenly. It is Linux that spreads; elsewhere one loop may get all. Unix
	// sockets cannot share a path, and are spread by RoundRobin.
	ReusePort Spread = iota
	// RoundRobin has one loop accept and the loops take turns.
	RoundRobin
	// FewestConns has one loop accept and the loop with the fewest connections of
	// the server get the next.
	FewestConns
)

// GroupOptions configure ListenGroup.
type GroupOptions struct {
	// Options are those of Listen. Protocol and OnError are called on each of
	// the loops, and so by several goroutines at once; MaxConns is for each
	// loop; ReusePort, if it is set, lets other servers share the address too.
	Options

	// Spread is how connections are spread over the loops.
	Spread Spread
}

// GroupServer is a server whose connections are spread over the loops of a group.
// ListenGroup makes one. Its methods may be called from any goroutine, at any time.
type GroupServer struct {
	o       GroupOptions
	network string
	addr    kernel.Addr
	members []*member
	turn    int          // of the accepting loop only: whose it is
	open    atomic.Int64 // connections, also those on their way
	closed  atomic.Bool

	mu      sync.Mutex
	drained []func() // to be called when none is open; guarded by mu
}

// ListenGroup is Listen for a group, before it runs: every connection is on one of
// its loops, and all its callbacks come there.
func ListenGroup(g *loop.Group, network, address string, o GroupOptions) (*GroupServer, error) {
	if o.Protocol == nil {
		panic("transport: ListenGroup without a Protocol")
	}
	if o.Spread > FewestConns {
		panic("transport: ListenGroup with an unknown Spread")
	}
	if network == "unix" && o.Spread == ReusePort {
		o.Spread = RoundRobin
	}
	gs := &GroupServer{o: o, network: network}
	gs.o.ReusePort = o.ReusePort || o.Spread == ReusePort && len(g.Loops()) > 1
	if gs.o.ReusePort && !o.ReusePort {
		var err error
		if address, err = mustBeFree(stationOf(g.Loops()[0]), network, address); err != nil {
			return nil, err
		}
	}
	return gs.start(g, "ListenGroup", func(m *member) error {
		err := m.listen(network, address)
		address = gs.addr.String() // with the port that was free
		return err
	})
}

// start makes the members and calls listen for each one that accepts: the first, or
// with ReusePort all of them. op is the exported function's name.
func (gs *GroupServer) start(g *loop.Group, op string, listen func(*member) error) (*GroupServer, error) {
	for i, l := range g.Loops() {
		if l.Running() {
			panic("transport: " + op + " on a group that runs; call it before, or listen on each loop by Post")
		}
		m := &member{gs: gs, st: stationOf(l)}
		if i == 0 || gs.o.Spread == ReusePort {
			if err := listen(m); err != nil {
				for _, m := range gs.members {
					m.stop()
				}
				return nil, err
			}
		}
		gs.members = append(gs.members, m)
	}
	for _, m := range gs.members {
		m.begin()
	}
	return gs, nil
}

// mustBeFree fails if somebody listens on the address: also another server whose
// loops share it, and that would share it with ours. It returns the address, with
// the port that was free.
func mustBeFree(st *station, network, address string) (string, error) {
	fd, err := st.bind(network, address, sock.Binding{})
	if err != nil {
		return "", err
	}
	defer st.hub.K.CloseFD(fd)
	a, err := st.hub.K.LocalAddr(fd)
	return a.String(), sock.Error("listen", network, nil, nil, err)
}

// Addr is the address the server listens on.
func (gs *GroupServer) Addr() net.Addr { return sock.NetAddr(gs.network, gs.addr) }

// Conns is how many connections are open on all loops.
func (gs *GroupServer) Conns() int { return int(gs.open.Load()) }

// Close stops to accept on all loops; connections stay. Whoever connects from now on
// is refused, whether the group runs or not. The path of a Unix socket is removed.
// Closing again does nothing.
func (gs *GroupServer) Close() error {
	if gs.closed.Swap(true) {
		return nil
	}
	var errs []error
	for _, m := range gs.members {
		if m.ln != nil {
			errs = append(errs, m.refuse())
		}
	}
	return errors.Join(errs...)
}

// Drain is Close, and calls done once the last connection is lost, on one of the
// loops.
func (gs *GroupServer) Drain(done func()) error {
	if done == nil {
		panic("transport: Drain with a nil function")
	}
	gs.mu.Lock()
	gs.drained = append(gs.drained, done)
	gs.mu.Unlock()
	err := gs.Close()
	for _, done := range gs.whenDrained() {
		if gs.members[0].st.hub.L.PostWith(loop.RunAtClose, done) != nil {
			done() // there is no loop any more
		}
	}
	return err
}

// whenDrained is what is to be called now, because no connection is left.
func (gs *GroupServer) whenDrained() []func() {
	if !gs.closed.Load() || gs.open.Load() != 0 {
		return nil
	}
	gs.mu.Lock()
	defer gs.mu.Unlock()
	drained := gs.drained
	gs.drained = nil
	return drained
}

// CloseConns closes every connection that the server has; see Server.CloseConns.
func (gs *GroupServer) CloseConns() { gs.each((*Server).CloseConns) }

// AbortConns ends every connection that the server has, at once.
func (gs *GroupServer) AbortConns() { gs.each((*Server).AbortConns) }

// EachConn calls fn for every connection that the server has, on the connection's loop:
// and so for several at once.
func (gs *GroupServer) EachConn(fn func(*Conn)) {
	gs.each(func(s *Server) { s.each(fn) })
}

func (gs *GroupServer) each(fn func(*Server)) {
	for _, m := range gs.members {
		switch l := m.st.hub.L; {
		case m.load.Load() == 0:
		case l.Owns():
			fn(m.s)
		default:
			_ = l.PostWith(loop.DropAtClose, func() { fn(m.s) }) // a loop that is closed has no connections
		}
	}
}

// pick is the member that gets the connection which m has accepted.
func (gs *GroupServer) pick(m *member) *member {
	if gs.o.Spread == ReusePort {
		return m
	}
	var best *member
	for i := range gs.members {
		m := gs.members[(gs.turn+i)%len(gs.members)]
		switch {
		case !m.hasRoom():
		case best == nil, gs.o.Spread == FewestConns && m.load.Load() < best.load.Load():
			best = m
		}
	}
	if best == nil {
		best = m // it came before the listener was paused
	}
	for i, m := range gs.members {
		if m == best {
			gs.turn = i + 1
		}
	}
	return best
}

// hasRoom tells whether a connection that m accepts could be placed.
func (gs *GroupServer) hasRoom(m *member) bool {
	if gs.o.Spread == ReusePort {
		return m.hasRoom()
	}
	for _, m := range gs.members {
		if m.hasRoom() {
			return true
		}
	}
	return false
}
