package web

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/stream"
)

// ErrDrainTimeout says that connections were cut off because their requests took
// longer than Server.DrainTimeout after the server was to end.
var ErrDrainTimeout = errors.New("web: requests took longer than the drain time-out")

// ListenAndServe serves on a TCP address until ctx ends; then it drains, for at most
// DrainTimeout, and returns nil or ErrDrainTimeout. In a task it serves on the task's
// loop. Anywhere else it makes loops of its own, Loops of them, that share the port.
// A port on which another server listens is an error, however that server listens.
func (s *Server) ListenAndServe(ctx context.Context, address string) error {
	serve, limit, lookUp := s.serveGroup, s.limitedGoroutine, net.DefaultResolver.LookupNetIP
	if spindle.Current(ctx) != nil {
		serve, limit, lookUp = s.serveInTask, s.limitedTask, stream.LookupNetIP
	}
	address, err := resolved(ctx, address, lookUp)
	if err != nil {
		return err
	}
	if s.OnStart != nil {
		if err := s.OnStart(ctx); err != nil {
			return err
		}
	}
	err = serve(ctx, address)
	if s.OnShutdown != nil {
		err = errors.Join(err, limit(ctx, s.OnShutdown))
	}
	return err
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
func (s *Server) serveGroup(ctx context.Context, address string) error {
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
	sv, err := s.ListenGroup(g, "tcp", address)
	if err != nil {
		return errors.Join(err, g.Close())
	}
	s.listens(sv)
	drained := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		drained <- sv.drainWithin(s.drainTimeout(), g.Loops()[0])
		g.Stop()
	})
	err = g.Run(context.Background())
	if !stop() {
		err = errors.Join(err, <-drained)
	}
	return errors.Join(err, g.Close())
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
	if l.PostWeak(func() { l.CallLater(d, func() { cancel(ErrDrainTimeout) }) }) != nil {
		return ErrServerClosed
	}
	return sv.Shutdown(ctx)
}

// serveInTask serves on the task's loop.
func (s *Server) serveInTask(ctx context.Context, address string) error {
	sv, err := s.Listen(spindle.LoopOf(ctx), "tcp", address)
	if err != nil {
		return err
	}
	s.listens(sv)
	if waker, err := spindle.NewWaker(ctx); err == nil {
		_ = waker.Park(ctx, "the server's end", spindle.AbortFunc(func() bool { return true })) // that ctx ends is why it returns
	}
	err = spindle.Grace(ctx, s.drainTimeout(), sv.Shutdown)
	if errors.Is(err, spindle.ErrTimeout) {
		err = ErrDrainTimeout
	}
	return err
}
