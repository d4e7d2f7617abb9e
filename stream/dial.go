package stream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/tracing"
)

// Dialer configures how to connect. Dial uses the zero Dialer.
type Dialer struct {
	// Timeout limits the whole dial: the name lookup and all addresses tried. Zero
	// means no limit but the system's.
	Timeout time.Duration

	// Local is the local address to dial from. Empty means any.
	Local string

	// Context, if set, is the context of a task. Connections then belong to the run
	// of that task, and Dial and DialContext accept any context: only its
	// cancellation and its deadline count. Set it for libraries that dial with
	// contexts of their own.
	Context context.Context
}

// errNoTask is the reason for which Dial fails if neither its context nor
// Dialer.Context comes from a task.
var errNoTask = fmt.Errorf("%w; pass a task's context, or set Context of the stream.Dialer", spindle.ErrNoTask)

// Dial connects to an address of network "tcp", "tcp4", "tcp6" or "unix", as
// net.Dial does. It tries all addresses of a name, alternating between IPv6 and
// IPv4, and starts the next attempt when one has failed or has not answered within
// 250 ms. The context comes from a task, and the connection belongs to that task's
// run. With any other context, Dial fails with spindle.ErrNoTask.
func Dial(ctx context.Context, network, address string) (*Conn, error) {
	return Dialer{}.Dial(ctx, network, address)
}

// DialContext is Dial with the signature that http.Transport and other libraries
// expect.
func (d Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := d.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Dial connects as the function Dial does, configured by d. Any goroutine may call
// it, as long as ctx or d.Context comes from a task.
func (d Dialer) Dial(ctx context.Context, network, address string) (*Conn, error) {
	base := d.Context
	if base == nil {
		base = ctx
	}
	if spindle.ScopeOf(base) == nil {
		return nil, sock.Error("dial", network, nil, nil, errNoTask)
	}
	if tracer := spindle.TracerOf(base); tracer != nil {
		return d.dialTraced(tracer, base, ctx, network, address)
	}
	return d.dial(base, ctx, network, address)
}

// dialTraced dials in a span.
func (d Dialer) dialTraced(tracer tracing.Tracer, base, ctx context.Context, network, address string) (*Conn, error) {
	ctx, end := tracer.Start(ctx, tracing.Span{Kind: "dial", Network: network, Address: address})
	c, err := d.dial(base, ctx, network, address)
	end(tracing.End{Err: err})
	return c, err
}

// dial connects in the run that base belongs to.
func (d Dialer) dial(base, ctx context.Context, network, address string) (*Conn, error) {
	nursery := spindle.RootNursery(base)
	here := coro.Here(spindle.LoopOf(base))
	if here != nil && spindle.Current(ctx) != nil {
		return d.dialTimeout(ctx, nursery, network, address)
	}
	if ctx.Err() != nil && nursery.Scope().Err() == nil { // the caller gave up; a run that has ended is reported below
		return nil, sock.Error("dial", network, nil, nil, context.Cause(ctx))
	}
	if here != nil {
		return d.dialUntil(ctx, here, nursery, network, address)
	}
	return runInTask(spindle.LoopOf(base), nursery, "Dial", func(here context.Context) (*Conn, error) {
		return d.dialUntil(ctx, here, nursery, network, address)
	})
}

// dialUntil connects in the scope of the task context here and gives up when ctx is
// done.
func (d Dialer) dialUntil(ctx, here context.Context, nursery *spindle.Nursery, network, address string) (c *Conn, err error) {
	gaveUp, err := untilDone(ctx, here, func(here context.Context) error {
		c, err = d.dialTimeout(here, nursery, network, address)
		return err
	})
	if gaveUp && err == nil {
		err = sock.Error("dial", network, nil, nil, context.Cause(ctx))
	}
	return c, err
}

// untilDone calls fn in the scope of the task context here and cancels it when ctx is
// done. It reports whether that ended fn.
func untilDone(ctx, here context.Context, fn func(here context.Context) error) (gaveUp bool, err error) {
	if ctx.Done() == nil {
		return false, fn(here)
	}
	err = spindle.WithScope(here, func(here context.Context, s *spindle.Scope) error {
		stop := spindle.LoopOf(here).Internal().AfterFunc(ctx, func() { s.Cancel(context.Cause(ctx)) })
		defer stop()
		err := fn(here)
		canceled, ok := errors.AsType[*spindle.Canceled](err)
		gaveUp = ok && canceled.Scope == s
		return err
	})
	return gaveUp, err
}

// dialTimeout connects within d.Timeout.
func (d Dialer) dialTimeout(ctx context.Context, nursery *spindle.Nursery, network, address string) (c *Conn, err error) {
	if d.Timeout <= 0 {
		return d.connect(ctx, nursery, network, address)
	}
	late, err := spindle.MoveOnAfter(ctx, d.Timeout, func(ctx context.Context) error {
		c, err = d.connect(ctx, nursery, network, address)
		return err
	})
	if late {
		err = sock.Error("dial", network, nil, nil, os.ErrDeadlineExceeded)
	}
	return c, err
}

func (d Dialer) connect(ctx context.Context, nursery *spindle.Nursery, network, address string) (*Conn, error) {
	t, err := sock.ParseTarget(network, address)
	if err == nil && t.Type != kernel.Stream {
		err = net.UnknownNetworkError(network)
	}
	var local kernel.Addr
	if err == nil && d.Local != "" {
		var from sock.Target
		if from, err = sock.ParseTarget(network, d.Local); err == nil {
			local, err = resolve(ctx, from)
		}
	}
	if err != nil {
		return nil, sock.Error("dial", network, nil, nil, err)
	}
	registry := sock.RegistryOf(spindle.LoopOf(ctx))
	w, err := spindle.NewWaker(ctx)
	if err != nil {
		return nil, err
	}
	var fd int
	var to kernel.Addr
	var failure error
	dialing := registry.Dial(t, local, func(n int, a kernel.Addr, err error) {
		fd, to, failure = n, a, err
		w.Wake(nil)
	})
	if err := w.Park(ctx, "Dial", spindle.AbortFunc(dialing.Cancel)); err != nil {
		return nil, err
	}
	if failure != nil {
		return nil, sock.Error("dial", network, nil, targetAddr(network, t), failure)
	}
	unix := to.Family() == kernel.Unix
	if !unix {
		registry.K.SetOption(fd, kernel.NoDelay, 1)
	}
	c, err := newConn(nursery, registry, fd, sock.KindOf(to.Family()))
	if err != nil {
		return nil, sock.Error("dial", network, nil, targetAddr(network, t), err)
	}
	c.unix = unix
	return c, nil
}

// targetAddr returns the address to name in an error, or nil if the target is a host
// name.
func targetAddr(network string, t sock.Target) net.Addr {
	a, ok := t.Known(false)
	if !ok {
		return nil
	}
	return sock.NetAddr(network, a)
}
