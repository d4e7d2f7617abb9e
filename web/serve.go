package web

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/stream"
)

// ErrDrainTimeout means that connections were closed because their requests took longer
// than Server.DrainTimeout after the context of ListenAndServe or Serve had ended.
var ErrDrainTimeout = errors.New("web: requests took longer than the drain time-out")

// ListenAndServe serves on a TCP address until ctx ends. It then drains for at most
// DrainTimeout and returns nil or ErrDrainTimeout. After Shutdown or Close it returns
// http.ErrServerClosed when the last connection has ended. It fails if another server listens
// on the port, whichever options that server has set.
//
// The context also says where to serve. With the context of a task, ListenAndServe serves on
// the task's loop. With any other, it makes as many loops as Loops says, which share the port.
// To serve until Shutdown as with http.Server, pass context.Background().
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

// Serve is ListenAndServe on an existing listener: a *net.TCPListener or a
// *net.UnixListener, for example one that a service manager passed and that comes from
// net.FileListener. Unlike the method of http.Server, it takes a context, and no listeners of
// other types: a loop watches sockets. For TLS set Server.TLS instead of using
// tls.NewListener. With several loops the first one accepts, and connections go to the loops
// in turn. Serve closes ln when it stops accepting.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	if ln == nil {
		panic("web: Serve with a nil listener")
	}
	defer ln.Close()
	return s.serve(ctx, source{ln: ln})
}

// source is what connections are accepted from: an address or a listener.
type source struct {
	address string
	ln      net.Listener // nil for an address
}

func (from source) listen(s *Server, l *loop.Loop) (*Service, error) {
	if from.ln != nil {
		return s.WrapListener(l, from.ln)
	}
	return s.Listen(l, "tcp", from.address)
}

func (from source) listenGroup(s *Server, g *loop.Group) (*Service, error) {
	if from.ln != nil {
		return s.wrapGroup(g, from.ln)
	}
	return s.ListenGroup(g, "tcp", from.address)
}

// serve implements ListenAndServe and Serve.
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

// joined is errors.Join that returns a single error unchanged: http.ErrServerClosed is compared
// with ==.
func joined(err, other error) error {
	if other == nil {
		return err
	}
	return errors.Join(err, other)
}

// resolved returns the address with the host's first IP address, as the transport needs it.
func resolved(ctx context.Context, address string, lookUp func(context.Context, string, string) ([]netip.Addr, error)) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return address, nil // the transport reports errors
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

// limitedGoroutine calls fn after ctx has ended, with a context that lasts DrainTimeout.
func (s *Server) limitedGoroutine(ctx context.Context, fn func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.drainTimeout())
	defer cancel()
	return fn(ctx)
}

// limitedTask is limitedGoroutine in a task.
func (s *Server) limitedTask(ctx context.Context, fn func(context.Context) error) error {
	return spindle.Grace(ctx, s.drainTimeout(), fn)
}

func (s *Server) listens(sv *Service) {
	if s.OnListen != nil {
		s.OnListen(sv.Addr())
	}
}

// serveGroup serves on new loops.
func (s *Server) serveGroup(ctx context.Context, from source) error {
	// A protocol that panics after it took a connection over loses that connection, like
	// a handler. Other connections are not affected.
	o := loop.Options{Name: "web", OnPanic: func(p *loop.PanicError) error {
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
		err = http.ErrServerClosed
	}
	return joined(err, g.Close())
}

func (s *Server) drainTimeout() time.Duration {
	if s.DrainTimeout <= 0 {
		return 10 * time.Second
	}
	return s.DrainTimeout
}

// drainWithin is Shutdown with a limit on a loop's clock.
func (sv *Service) drainWithin(d time.Duration, l *loop.Loop) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	if l.Internal().Post(atclose.Drop, func() { l.CallLater(d, func() { cancel(ErrDrainTimeout) }) }) != nil {
		return http.ErrServerClosed
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
	sv.whenOver(func() { _ = l.Internal().Post(atclose.Drop, func() { over.Resolve(struct{}{}) }) })
	if _, err := over.Await(ctx); err == nil {
		return http.ErrServerClosed
	}
	err = spindle.Grace(ctx, s.drainTimeout(), sv.Shutdown)
	if errors.Is(err, spindle.ErrTimeout) {
		err = ErrDrainTimeout
	}
	return err
}
