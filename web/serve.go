package web

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/loopcore"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/stream"
)

// ErrDrainTimeout says that connections were cut off because their requests took
// longer than Server.DrainTimeout after the server was to end.
var ErrDrainTimeout = errors.New("web: requests took longer than the drain time-out")

// ListenAndServe serves on a TCP address until ctx ends; then it drains, for at most
// DrainTimeout, and returns nil or ErrDrainTimeout. After Shutdown or Close it returns
// ErrServerClosed, when the last connection has ended. In a task it serves on the
// task's loop. Anywhere else it makes loops of its own, Loops of them, that share the
// port. A port on which another server listens is an error, however that server listens.
func (s *Server) ListenAndServe(ctx context.Context, address string) error {
	lookUp := net.DefaultResolver.LookupNetIP
	if spindle.Current(ctx) != nil {
		lookUp = stream.LookupNetIP
	}
	address, err := resolved(ctx, address, lookUp)
	if err != nil {
		return err
	}
	return s.serve(ctx, source{address: address})
}

// Serve is ListenAndServe on a listener that exists: a *net.TCPListener or a
// *net.UnixListener, for example one that was inherited from a service manager and
// comes from net.FileListener. With several loops the first accepts, and they take
// turns. Serve closes ln when it stops accepting. For TLS set Server.TLS; a listener
// of tls.NewListener is refused.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	if ln == nil {
		panic("web: Serve with a nil listener")
	}
	defer ln.Close()
	return s.serve(ctx, source{ln: ln})
}

// source is where connections come from: an address, or a listener.
type source struct {
	address string
	ln      net.Listener // nil for an address
}

func (from source) listen(s *Server, l *loop.Loop) (*Service, error) {
	if from.ln != nil {
		return s.wrap(l, from.ln)
	}
	return s.Listen(l, "tcp", from.address)
}

func (from source) listenGroup(s *Server, g *loop.Group) (*Service, error) {
	if from.ln != nil {
		return s.wrapGroup(g, from.ln)
	}
	return s.ListenGroup(g, "tcp", from.address)
}

// serve is ListenAndServe and Serve, with what is called before and after.
func (s *Server) serve(ctx context.Context, from source) error {
	serve, limit := s.serveGroup, s.limitedGoroutine
	if spindle.Current(ctx) != nil {
		serve, limit = s.serveInTask, s.limitedTask
	}
	if s.OnStart != nil {
		if err := s.OnStart(ctx); err != nil {
			return err
		}
	}
	err := serve(ctx, from)
	if s.OnShutdown != nil {
		err = joined(err, limit(ctx, s.OnShutdown))
	}
	return err
}

// joined is errors.Join that keeps a single error as it is: ErrServerClosed is compared
// with ==.
func joined(err, other error) error {
	if other == nil {
		return err
	}
	return errors.Join(err, other)
}

// resolved is the address with a number for the host, as transport wants it. Of several
// the first counts.
func resolved(ctx context.Context, address string, lookUp func(context.Context, string, string) ([]netip.Addr, error)) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return address, nil // for transport to judge
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return address, nil
	}
	found, err := lookUp(ctx, "ip", host)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(found[0].Unmap().String(), port), nil
}

// limitedGoroutine calls fn after ctx has ended, with the time that draining may take.
func (s *Server) limitedGoroutine(ctx context.Context, fn func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.drainTimeout())
	defer cancel()
	return fn(ctx)
}

// limitedTask is that in a task.
func (s *Server) limitedTask(ctx context.Context, fn func(context.Context) error) error {
	return spindle.Grace(ctx, s.drainTimeout(), fn)
}

func (s *Server) listens(sv *Service) {
	if s.OnListen != nil {
		s.OnListen(sv.Addr())
	}
}

// serveGroup serves on loops of its own.
func (s *Server) serveGroup(ctx context.Context, from source) error {
	// A protocol that has taken over a connection loses it if it panics, and nobody
	// else is to: as it is with a handler.
	o := loop.Options{OnPanic: func(p *loop.PanicError) error {
		s.errorLog().Error(withStack("web: callback panicked", p.Value, p.Stack))
		return nil
	}}
	g, err := loop.NewGroup(s.Loops, o)
	if err != nil {
		return err
	}
	sv, err := from.listenGroup(s, g)
	if err != nil {
		return joined(err, g.Close())
	}
	s.listens(sv)
	sv.whenOver(g.Stop)
	drained := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		drained <- sv.drainWithin(s.drainTimeout(), g.Loops()[0])
		g.Stop()
	})
	err = g.Run(context.Background())
	if !stop() {
		err = errors.Join(err, <-drained)
	} else if err == nil {
		err = ErrServerClosed
	}
	return joined(err, g.Close())
}

func (s *Server) drainTimeout() time.Duration {
	if s.DrainTimeout <= 0 {
		return 10 * time.Second
	}
	return s.DrainTimeout
}

// drainWithin is Shutdown with a limit that a loop's clock sets.
func (sv *Service) drainWithin(d time.Duration, l *loop.Loop) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	if l.Internal().Post(loopcore.DropAtClose, func() { l.CallLater(d, func() { cancel(ErrDrainTimeout) }) }) != nil {
		return ErrServerClosed
	}
	return sv.Shutdown(ctx)
}

// serveInTask serves on the task's loop.
func (s *Server) serveInTask(ctx context.Context, from source) error {
	l := spindle.LoopOf(ctx)
	sv, err := from.listen(s, l)
	if err != nil {
		return err
	}
	s.listens(sv)
	over := spindle.NewFuture[struct{}](ctx)
	sv.whenOver(func() { _ = l.Internal().Post(loopcore.DropAtClose, func() { over.Resolve(struct{}{}) }) })
	if _, err := over.Await(ctx); err == nil {
		return ErrServerClosed
	}
	err = spindle.Grace(ctx, s.drainTimeout(), sv.Shutdown)
	if errors.Is(err, spindle.ErrTimeout) {
		err = ErrDrainTimeout
	}
	return err
}
