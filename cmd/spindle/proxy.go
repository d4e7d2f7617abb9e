package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/stream"
)

const proxyHelp = `
spindle proxy accepts TCP connections on LISTEN and passes them on to TARGET, until
it is interrupted. Then it waits for open connections to end, and says what went
through; a second interrupt ends it at once.

  spindle proxy :8080 example.com:80         everybody's port 8080 is theirs 80
  spindle proxy --every 10s :8080 db:5432    with a line of counters every 10 s
  spindle proxy --max-conns 100 :8080 db:5432

What one side does not read is not read from the other. When one side has sent all
it has, the other is told, and can go on to answer. Bytes are counted then.
`

// proxy passes connections on. Only tasks of one loop touch it.
type proxy struct {
	target string
	dialer stream.Dialer

	accepted int
	open     int
	failed   int   // whose target could not be reached
	up, down int64 // bytes to the target and from it
}

// errItself ends a proxy that would pass its clients on to itself, again and again
// until no descriptor is left.
var errItself = errors.New("the target is this proxy itself")

func runProxy(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := flag.NewFlagSet("proxy", flag.ContinueOnError)
	patience := flags.Duration("dial-timeout", 10*time.Second, "`TIME` that the target may take to answer")
	maxConns := flags.Int("max-conns", 0, "`N` connections at once; others wait (0: no limit)")
	drain := flags.Duration("drain", 5*time.Second, "`TIME` that connections may go on when interrupted")
	every := flags.Duration("every", 0, "`TIME` between lines of counters (0: only one at the end)")
	if err := parse(flags, proxyHelp, args, out); err != nil {
		return err
	}
	switch {
	case flags.NArg() != 2:
		return fmt.Errorf("got %d arguments, want LISTEN and TARGET; see 'spindle proxy --help'", flags.NArg())
	case *maxConns < 0:
		return fmt.Errorf("--max-conns %d: need zero or more", *maxConns)
	}
	if _, _, err := net.SplitHostPort(flags.Arg(1)); err != nil {
		return fmt.Errorf("bad target %q: want HOST:PORT", flags.Arg(1))
	}
	at, err := resolve(ctx, flags.Arg(0))
	if err != nil {
		return err
	}
	p := &proxy{target: flags.Arg(1), dialer: stream.Dialer{Timeout: *patience}}
	said := func() {}
	if *drain > 0 {
		said = sayDraining(ctx, out, "proxy", *drain)
	}
	err = spindle.Run(ctx, func(ctx context.Context) error {
		ln, err := stream.Listen(ctx, "tcp", at)
		if err != nil {
			return fmt.Errorf("listen on %s: %w", at, errors.Unwrap(err))
		}
		fmt.Fprintf(out, "spindle proxy: %v → %s\n", ln.Addr(), p.target)
		if *every > 0 {
			spindle.Background(ctx).Go(func(ctx context.Context) error { return p.tell(ctx, out, *every) })
		}
		serve := stream.ServeConfig{MaxConns: *maxConns, Drain: *drain, OnError: func(c *stream.Conn, err error) error {
			if errors.Is(err, errItself) {
				return errItself
			}
			fmt.Fprintf(errs, "spindle proxy: %v: %v\n", c.RemoteAddr(), err)
			return nil
		}}
		return serve.Serve(ctx, ln, p.pass)
	})
	said()
	if errors.Is(err, context.Canceled) {
		fmt.Fprintln(out, p)
		return nil
	}
	return err
}

func (p *proxy) String() string {
	return fmt.Sprintf("spindle proxy: %d accepted, %d open, %d failed, %d bytes up, %d down", p.accepted, p.open, p.failed, p.up, p.down)
}

// tell prints the counters again and again.
func (p *proxy) tell(ctx context.Context, out io.Writer, every time.Duration) error {
	for {
		if err := spindle.Sleep(ctx, every); err != nil {
			return err
		}
		fmt.Fprintln(out, p)
	}
}

// pass passes one connection on.
func (p *proxy) pass(ctx context.Context, client *stream.Conn) error {
	p.accepted++
	p.open++
	defer func() { p.open-- }()
	server, err := p.dialer.DialContext(ctx, "tcp", p.target)
	if err != nil {
		p.failed++
		return err
	}
	target := server.(*stream.Conn)
	defer target.Close()
	// Compared here and not before listening: a wildcard, a name or port 0 shows where
	// it leads only when somebody comes that way.
	if at := target.RemoteAddr().String(); at == client.LocalAddr().String() && !strings.HasSuffix(at, ":0") { // known
		return errItself
	}
	return spindle.WithNursery(ctx, func(_ context.Context, n *spindle.Nursery) error {
		n.Go(func(context.Context) error { return pump(target, client, &p.up) })
		n.Go(func(context.Context) error { return pump(client, target, &p.down) })
		return nil
	})
}

// pump passes on what one side sends until it has sent all. Where the system can,
// the bytes never come up to us; so they are counted when the last has gone through.
func pump(to, from *stream.Conn, count *int64) error {
	n, err := io.Copy(to, from)
	*count += n
	if err != nil {
		return err
	}
	return to.CloseWrite()
}
