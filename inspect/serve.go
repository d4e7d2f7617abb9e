package inspect

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/netip"
	"sync"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/web"
)

// Server is a running server of the page and the API. Serve makes one.
type Server struct {
	h     *handler
	l     *loop.Loop
	sv    *web.Service
	end   context.CancelFunc
	ended chan struct{}
	err   error // set before ended is closed
}

// servers has the loops of running servers as its keys.
var servers sync.Map

// maxConns bounds the memory that slow clients can take.
const maxConns = 256

// Serve starts a server on a TCP address such as "127.0.0.1:6061" and returns. It runs on
// a loop of its own, so that it answers while the other loops of the process are blocked.
// The address must be a loopback address or "localhost", unless o.AllowRemote is set. The
// port 0 selects a free one; see Addr.
func Serve(addr string, o Options) (*Server, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("inspect: Serve: %w", err)
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case !o.AllowRemote && (err != nil || !ip.IsLoopback()):
		return nil, fmt.Errorf("inspect: Serve on %s: not a loopback address; set Options.AllowRemote and Token to serve other machines", addr)
	case o.AllowRemote && o.Token == "":
		return nil, fmt.Errorf("inspect: Serve on %s: Options.AllowRemote needs a Token", addr)
	}
	l, err := loop.New(loop.Options{Name: "inspector"})
	if err != nil {
		return nil, fmt.Errorf("inspect: Serve on %s: %w", addr, err)
	}
	h := Handler(o).(*handler)
	ws := &web.Server{Handler: h, MaxConns: maxConns, MaxWorkers: 2 * maxStreams, MaxBodyBytes: 1 << 16, WriteTimeout: writeWait}
	sv, err := ws.Listen(l, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("inspect: Serve on %s: %w", addr, err)
	}
	ctx, end := context.WithCancel(context.Background())
	s := &Server{h: h, l: l, sv: sv, end: end, ended: make(chan struct{})}
	servers.Store(l, s)
	background(func() { s.run(ctx) })
	return s, nil
}

// run runs the loop until the server is closed.
func (s *Server) run(ctx context.Context) {
	defer close(s.ended)
	defer servers.Delete(s.l)
	err := s.l.Run(ctx)
	if ctx.Err() == nil {
		s.err = err
	}
	if err := s.l.Close(); s.err == nil {
		s.err = err
	}
}

// substitute returns the address of the oldest running server that shows and allows what h
// does, or "" if h is that of a server itself. A client has no token for another address.
func (h *handler) substitute() (addr string) {
	oldest := uint64(math.MaxUint64)
	servers.Range(func(_, value any) bool {
		s := value.(*Server)
		if s.h == h {
			addr = ""
			return false
		}
		if id := s.l.Internal().ID(); id < oldest && s.h.canReplace(h) {
			oldest, addr = id, s.Addr().String()
		}
		return true
	})
	return addr
}

func (h *handler) canReplace(other *handler) bool {
	return h.Token == "" && other.Token == "" && h.Recording == nil && other.Recording == nil && (h.AllowActions || !other.AllowActions)
}

// Addr returns the address that the server listens on.
func (s *Server) Addr() net.Addr { return s.sv.Addr() }

// Close closes the server's connections and its loop, and waits for that.
func (s *Server) Close() error {
	s.sv.Close()
	s.end()
	<-s.ended
	s.h.detach()
	return s.err
}
