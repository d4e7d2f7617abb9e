package transport

import (
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

// ListenGroup is like Listen for a group. Call it before the group runs. Every
// connection belongs to one of the loops, which calls all its callbacks.
func ListenGroup(g *loop.Group, network, address string, o Options) (*Server, error) {
	if o.Protocol == nil {
		panic("transport: ListenGroup without a Protocol")
	}
	if o.Spread > FewestConns {
		panic("transport: ListenGroup with an unknown Spread")
	}
	o.checkSock("ListenGroup", network, address)
	if o.Spread == ReusePort && (network == "unix" || o.Sock != nil) {
		o.Spread = RoundRobin
	}
	s := &Server{o: o, network: network}
	s.o.ReusePort = o.ReusePort || o.Spread == ReusePort && len(g.Loops()) > 1
	if s.o.ReusePort && !o.ReusePort {
		var err error
		if address, err = checkFree(loopStateOf("ListenGroup", g.Loops()[0]), network, address); err != nil {
			return nil, err
		}
	}
	return s.startGroup("ListenGroup", g, func(sh *shard) error {
		err := sh.listen(network, address)
		address = s.addr.String() // with the free port that the system chose
		return err
	})
}

// startGroup is start for the loops of a group.
func (s *Server) startGroup(op string, g *loop.Group, listen func(*shard) error) (*Server, error) {
	for _, l := range g.Loops() {
		if l.Internal().Running() {
			panic("transport: " + op + " on a running group; call it before the group runs, or listen on each loop with Post")
		}
	}
	s.group = true
	return s.start(op, g.Loops(), listen)
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

// pick returns the shard that gets a connection accepted by sh.
func (s *Server) pick(sh *shard) *shard {
	if s.o.Spread == ReusePort {
		return sh
	}
	var best *shard
	for i := range s.shards {
		sh := s.shards[(s.nextShard+i)%len(s.shards)]
		switch {
		case !sh.hasCapacity():
		case best == nil, s.o.Spread == FewestConns && sh.conns.Load() < best.conns.Load():
			best = sh
		}
	}
	if best == nil {
		best = sh // accepted before the listener was paused
	}
	for i, sh := range s.shards {
		if sh == best {
			s.nextShard = i + 1
		}
	}
	return best
}

// hasCapacity reports whether some shard may take a connection accepted by sh.
func (s *Server) hasCapacity(sh *shard) bool {
	if s.o.Spread == ReusePort {
		return sh.hasCapacity()
	}
	for _, sh := range s.shards {
		if sh.hasCapacity() {
			return true
		}
	}
	return false
}
