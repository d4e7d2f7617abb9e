package stream

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/loop"
)

// Dialer configures how to connect. The zero Dialer is what Dial uses.
type Dialer struct {
	// Timeout is how long all of it may take: look-up and every address. Zero
	// means as long as the system tries.
	Timeout time.Duration

	// Local is the address of this end, "" for any.
	Local string

	// Context is the context of a task. If it is set, connections belong to the
	// run of that task, and the context given to Dial or DialContext may be any:
	// only its end and its deadline count. It is for libraries that dial with
	// contexts of their own.
	Context context.Context
}

// ErrNoTask is the reason why Dial fails if neither its context nor Dialer.Context
// comes from a task.
var ErrNoTask = errors.New("stream: the context does not come from a task; pass a task's context, or set Context of the stream.Dialer")

// Dial connects to an address of network "tcp", "tcp4", "tcp6" or "unix", as
// net.Dial does. All addresses of a name are tried, IPv6 and IPv4 in turns, the
// next when one has failed or not answered for a quarter of a second. Ctx comes from
// a task, and the connection belongs to its run; any other context fails with
// ErrNoTask.
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

// Dial is the function Dial as configured by d. It may be called from any goroutine;
// the context, or d.Context, comes from a task.
func (d Dialer) Dial(ctx context.Context, network, address string) (*Conn, error) {
	base := d.Context
	if base == nil {
		base = ctx
	}
	if spindle.ScopeOf(base) == nil {
		return nil, sock.Error("dial", network, nil, nil, ErrNoTask)
	}
	home := spindle.Background(base)
	here := home.Here()
	if here != nil && spindle.Current(ctx) != nil {
		return d.within(ctx, home, network, address)
	}
	if ctx.Err() != nil && home.Scope().Err() == nil { // the caller has given up, and the run has not ended
		return nil, sock.Error("dial", network, nil, nil, context.Cause(ctx))
	}
	if here != nil {
		return d.until(ctx, here, home, network, address)
	}
	return inTask(spindle.LoopOf(base), home, "Dial of a goroutine", func(here context.Context) (*Conn, error) {
		return d.until(ctx, here, home, network, address)
	})
}

// until connects in the scope here, and gives up when ctx ends.
func (d Dialer) until(ctx, here context.Context, home *spindle.Nursery, network, address string) (c *Conn, err error) {
	if ctx.Done() == nil {
		return d.within(here, home, network, address)
	}
	err = spindle.WithScope(here, func(here context.Context, s *spindle.Scope) error {
		l := spindle.LoopOf(here)
		stop := l.Kernel().AfterFunc(ctx, func() { l.PostWith(loop.DropAtClose, func() { s.Cancel(context.Cause(ctx)) }) })
		defer stop()
		c, err = d.within(here, home, network, address)
		return err
	})
	if err == nil && c == nil {
		err = sock.Error("dial", network, nil, nil, context.Cause(ctx))
	}
	return c, err
}

// within connects in at most d.Timeout.
func (d Dialer) within(ctx context.Context, home *spindle.Nursery, network, address string) (c *Conn, err error) {
	if d.Timeout <= 0 {
		return d.connect(ctx, home, network, address)
	}
	late, err := spindle.MoveOnAfter(ctx, d.Timeout, func(ctx context.Context) error {
		c, err = d.connect(ctx, home, network, address)
		return err
	})
	if late {
		err = sock.Error("dial", network, nil, nil, os.ErrDeadlineExceeded)
	}
	return c, err
}

func (d Dialer) connect(ctx context.Context, home *spindle.Nursery, network, address string) (*Conn, error) {
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
	hub := sock.RegistryOf(spindle.LoopOf(ctx))
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
	c, err := newConn(home, hub, fd, sock.KindOf(to.Family()))
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
