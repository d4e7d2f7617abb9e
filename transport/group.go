package transport

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/loopcore"
	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/loop"
)

// Spread selects how connections are distributed over the loops of a group.
type Spread uint8

const (
	// ReusePort makes every loop listen. The system chooses a loop by a hash of
	// the addresses. Nothing is handed over, but a small number of connections
	// may be distributed unevenly. Only Linux distributes them; elsewhere one
	// loop may get all. Unix sockets cannot share a path and use RoundRobin.
	ReusePort Spread = iota
	// RoundRobin makes one loop accept. The loops get the connections in turn.
	RoundRobin
	// FewestConns makes one loop accept. The loop with the fewest connections of
	// the server gets the next one.
	FewestConns
)

// GroupOptions configure ListenGroup.
type GroupOptions struct {
	// Options are those of Listen. Protocol and OnError are called on each loop,
	// so several goroutines may call them at once. MaxConns is the limit of each
	// loop. ReusePort lets other servers share the address too.
	Options

	// Spread selects how connections are distributed over the loops.
	Spread Spread
}

// GroupServer is a server that distributes its connections over the loops of a group.
// ListenGroup makes one. Its methods may be called from any goroutine at any time.
type GroupServer struct {
	o         GroupOptions
	network   string
	addr      kernel.Addr
	shards    []*shard
	nextShard int          // accepting loop only: where the next search starts
	open      atomic.Int64 // connections, including those being handed over
	closed    atomic.Bool

	mu      sync.Mutex
	drained []func() // callbacks of Drain; guarded by mu
}

// ListenGroup is like Listen for a group. Call it before the group runs. Every
// connection belongs to one of the loops, which calls all its callbacks.
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
		if address, err = checkFree(loopStateOf("ListenGroup", g.Loops()[0]), network, address); err != nil {
			return nil, err
		}
	}
	return gs.start(g, "ListenGroup", func(sh *shard) error {
		err := sh.listen(network, address)
		address = gs.addr.String() // with the free port that the system chose
		return err
	})
}

// start makes the shards and calls listen for each one that accepts: the first, or
// with ReusePort all of them. op is the name of the exported function.
func (gs *GroupServer) start(g *loop.Group, op string, listen func(*shard) error) (*GroupServer, error) {
	for i, l := range g.Loops() {
		if l.Internal().Running() {
			panic("transport: " + op + " on a running group; call it before the group runs, or listen on each loop with Post")
		}
		sh := &shard{gs: gs, st: loopStateOf(op, l)}
		if i == 0 || gs.o.Spread == ReusePort {
			if err := listen(sh); err != nil {
				for _, sh := range gs.shards {
					sh.stop()
				}
				return nil, err
			}
		}
		gs.shards = append(gs.shards, sh)
	}
	for _, sh := range gs.shards {
		sh.start()
	}
	return gs, nil
}

// checkFree fails if the address is in use. Without this check another server that set
// SO_REUSEPORT would share it with ours. It returns the address with the free port that
// the system chose.
func checkFree(st *loopState, network, address string) (string, error) {
	fd, err := st.bind(network, address, sock.Binding{})
	if err != nil {
		return "", err
	}
	defer st.sockets.K.CloseFD(fd)
	a, err := st.sockets.K.LocalAddr(fd)
	return a.String(), sock.Error("listen", network, nil, nil, err)
}

// Addr returns the address that the server listens on.
func (gs *GroupServer) Addr() net.Addr { return sock.NetAddr(gs.network, gs.addr) }

// Conns returns the number of open connections on all loops.
func (gs *GroupServer) Conns() int { return int(gs.open.Load()) }

// Close stops accepting on all loops; connections stay open. New connections are
// refused from now on, even if the group does not run. The path of a Unix socket is
// removed. Closing again does nothing.
func (gs *GroupServer) Close() error {
	if gs.closed.Swap(true) {
		return nil
	}
	var errs []error
	for _, sh := range gs.shards {
		if sh.ln != nil {
			errs = append(errs, sh.closeListener())
		}
	}
	return errors.Join(errs...)
}

// Drain closes the server like Close and calls done, on one of the loops, once the last
// connection is lost.
func (gs *GroupServer) Drain(done func()) error {
	if done == nil {
		panic("transport: Drain with a nil function")
	}
	gs.mu.Lock()
	gs.drained = append(gs.drained, done)
	gs.mu.Unlock()
	err := gs.Close()
	for _, done := range gs.takeDrained() {
		if gs.shards[0].st.sockets.L.Internal().Post(loopcore.RunAtClose, done) != nil {
			done() // the loop is closed
		}
	}
	return err
}

// takeDrained removes and returns the callbacks of Drain if no connection is left.
func (gs *GroupServer) takeDrained() []func() {
	if !gs.closed.Load() || gs.open.Load() != 0 {
		return nil
	}
	gs.mu.Lock()
	defer gs.mu.Unlock()
	drained := gs.drained
	gs.drained = nil
	return drained
}

// CloseConns closes every connection of the server; see Server.CloseConns.
func (gs *GroupServer) CloseConns() { gs.each((*Server).CloseConns) }

// AbortConns ends every connection of the server at once.
func (gs *GroupServer) AbortConns() { gs.each((*Server).AbortConns) }

// EachConn calls fn for every connection of the server, on the connection's loop. Calls
// on different loops run concurrently.
func (gs *GroupServer) EachConn(fn func(*Conn)) {
	gs.each(func(s *Server) { s.each(fn) })
}

func (gs *GroupServer) each(fn func(*Server)) {
	for _, sh := range gs.shards {
		switch l := sh.st.sockets.L; {
		case sh.conns.Load() == 0:
		case l.Owns():
			fn(sh.s)
		default:
			_ = l.Internal().Post(loopcore.DropAtClose, func() { fn(sh.s) }) // a closed loop has no connections
		}
	}
}

// pick returns the shard that gets a connection accepted by sh.
func (gs *GroupServer) pick(sh *shard) *shard {
	if gs.o.Spread == ReusePort {
		return sh
	}
	var best *shard
	for i := range gs.shards {
		sh := gs.shards[(gs.nextShard+i)%len(gs.shards)]
		switch {
		case !sh.hasCapacity():
		case best == nil, gs.o.Spread == FewestConns && sh.conns.Load() < best.conns.Load():
			best = sh
		}
	}
	if best == nil {
		best = sh // accepted before the listener was paused
	}
	for i, sh := range gs.shards {
		if sh == best {
			gs.nextShard = i + 1
		}
	}
	return best
}

// hasCapacity reports whether some shard may take a connection accepted by sh.
func (gs *GroupServer) hasCapacity(sh *shard) bool {
	if gs.o.Spread == ReusePort {
		return sh.hasCapacity()
	}
	for _, sh := range gs.shards {
		if sh.hasCapacity() {
			return true
		}
	}
	return false
}
