package stream

import (
	"context"
	"net"
	"os"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/sock"
)

// Dialer is how to connect, where Dial does not do. The zero Dialer is Dial's.
type Dialer struct {
	// Timeout is how long all of it may take: look-up and every address. Zero
	// means as long as the system tries.
	Timeout time.Duration

	// Local is the address of this end, "" for any.
	Local string
}

// Dial connects to an address of network "tcp", "tcp4", "tcp6" or "unix", as
// net.Dial does. All addresses of a name are tried, IPv6 and IPv4 in turns, the
// next when one has failed or not answered for a quarter of a second. Ctx is a
// task's; the connection belongs to its run.
func Dial(ctx context.Context, network, address string) (*Conn, error) {
	return Dialer{}.Dial(ctx, network, address)
}

// DialContext is the method Dial in the form that http.Transport and others take.
func (d Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := d.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Dial is Dial as configured. A goroutine that is no task may call it with a ctx
// that comes from one.
func (d Dialer) Dial(ctx context.Context, network, address string) (*Conn, error) {
	l := spindle.LoopOf(ctx)
	call := func(inner context.Context) (c *Conn, err error) {
		if d.Timeout <= 0 {
			return d.connect(inner, network, address)
		}
		late, err := spindle.MoveOnAfter(inner, d.Timeout, func(ctx context.Context) error {
			c, err = d.connect(ctx, network, address)
			return err
		})
		if late {
			err = sock.Error("dial", network, nil, nil, os.ErrDeadlineExceeded)
		}
		return c, err
	}
	if spindle.Current(ctx) != nil {
		return call(ctx)
	}
	return inTask(l, spindle.Background(ctx), "Dial of a goroutine", func(in context.Context) (c *Conn, err error) {
		// Of the goroutine's ctx only its end counts.
		err = spindle.WithScope(in, func(in context.Context, s *spindle.Scope) error {
			stop := l.Kernel().AfterFunc(ctx, func() { l.PostWeak(func() { s.Cancel(context.Cause(ctx)) }) })
			defer stop()
			c, err = call(in)
			return err
		})
		if err == nil && c == nil {
			err = sock.Error("dial", network, nil, nil, context.Cause(ctx))
		}
		return c, err
	})
}

func (d Dialer) connect(ctx context.Context, network, address string) (*Conn, error) {
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
	hub := sock.HubOf(spindle.LoopOf(ctx))
	w, err := spindle.NewWaker(ctx)
	if err != nil {
		return nil, err
	}
	var fd int
	var to kernel.Addr
	var failure error
	dialing := hub.Dial(t, local, func(n int, a kernel.Addr, err error) {
		fd, to, failure = n, a, err
		w.Wake(nil)
	})
	if err := w.Park(ctx, "Dial", spindle.AbortFunc(dialing.Cancel)); err != nil {
		return nil, err
	}
	if failure != nil {
		return nil, sock.Error("dial", network, nil, addressed(network, t), failure)
	}
	unix := to.Family() == kernel.Unix
	if !unix {
		hub.K.SetOption(fd, kernel.NoDelay, 1)
	}
	c, err := newConn(spindle.Background(ctx), hub, fd, sock.KindOf(to.Family()))
	if err != nil {
		return nil, sock.Error("dial", network, nil, addressed(network, t), err)
	}
	c.unix = unix
	return c, nil
}

// addressed is the address that a failure names; nil if a name stood for several.
func addressed(network string, t sock.Target) net.Addr {
	a, ok := t.Known(false)
	if !ok {
		return nil
	}
	return sock.NetAddr(network, a)
}
