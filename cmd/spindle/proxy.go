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
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/stream"
)

const proxyHelp = `
spindle proxy [flags] LISTEN TARGET accepts TCP connections on LISTEN and forwards them
to TARGET. When interrupted, it waits for open connections to end and prints counters; a
second interrupt ends it at once.

  spindle proxy :8080 example.com:80         forwards port 8080 to port 80 of a host
  spindle proxy --every 10s :8080 db:5432    prints counters every 10 seconds
  spindle proxy --max-conns 100 :8080 db:5432

The proxy reads from one side only as fast as the other side reads. When one side closes
its sending direction, the proxy closes that direction to the other side, which can still
answer; the bytes are counted then.
`

// proxy forwards connections. Only tasks of one loop use it.
type proxy struct {
	target string
	dialer stream.Dialer

	accepted int
	open     int
	failed   int   // connections without a reachable target
	up, down int64 // bytes to the target and from it
}

// errItself ends a proxy that forwards to itself, which would use up all descriptors.
var errItself = errors.New("the target is this proxy itself")

func runProxy(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := flag.NewFlagSet("proxy", flag.ContinueOnError)
	dialTimeout := flags.Duration("dial-timeout", 10*time.Second, "`TIME` for the target to accept a connection")
	maxConns := flags.Int("max-conns", 0, "`N` connections at once; others wait (0: no limit)")
	drain := flags.Duration("drain", 5*time.Second, "`TIME` for open connections after an interrupt")
	every := flags.Duration("every", 0, "`TIME` between lines of counters (0: only at the end)")
	if err := parse(flags, proxyHelp, args, out); err != nil {
		return err
	}
	switch {
	case flags.NArg() != 2:
		return fmt.Errorf("want 2 arguments, LISTEN and TARGET, got %d; see 'spindle proxy --help'", flags.NArg())
	case *maxConns < 0:
		return fmt.Errorf("--max-conns %d: want 0 or more", *maxConns)
	}
	if _, _, err := net.SplitHostPort(flags.Arg(1)); err != nil {
		return fmt.Errorf("bad target %q: want HOST:PORT", flags.Arg(1))
	}
	at, err := resolve(ctx, flags.Arg(0))
	if err != nil {
		return err
	}
	p := &proxy{target: flags.Arg(1), dialer: stream.Dialer{Timeout: *dialTimeout}}
	announced := func() {}
	if *drain > 0 {
		announced = announceDrain(ctx, out, "proxy", *drain)
	}
	err = spindle.Options{Loop: loop.Options{Name: "proxy"}}.Run(ctx, func(ctx context.Context) error {
		ln, err := stream.Listen(ctx, "tcp", at)
		if err != nil {
			return listenError(err, at, "choose another LISTEN")
		}
		fmt.Fprintf(out, "spindle proxy: %v → %s\n", ln.Addr(), p.target)
		if *every > 0 {
			spindle.RootNursery(ctx).Go(func(ctx context.Context) error { return p.report(ctx, out, *every) })
		}
		serve := stream.ServeConfig{MaxConns: *maxConns, Drain: *drain, OnError: func(c *stream.Conn, err error) error {
			if errors.Is(err, errItself) {
				return errItself
			}
			fmt.Fprintf(errs, "spindle proxy: %v: %v\n", c.RemoteAddr(), err)
			return nil
		}}
		return serve.Serve(ctx, ln, p.forward)
	})
	announced()
	if errors.Is(err, context.Canceled) {
		fmt.Fprintln(out, p)
		return nil
	}
	return err
}

func (p *proxy) String() string {
	return fmt.Sprintf("spindle proxy: %d accepted, %d open, %d failed, %d bytes up, %d down", p.accepted, p.open, p.failed, p.up, p.down)
}

// report prints the counters periodically.
func (p *proxy) report(ctx context.Context, out io.Writer, every time.Duration) error {
	for {
		if err := spindle.Sleep(ctx, every); err != nil {
			return err
		}
		fmt.Fprintln(out, p)
	}
}

// forward forwards one connection.
func (p *proxy) forward(ctx context.Context, client *stream.Conn) error {
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
	// Compared here and not before listening: with a wildcard, a name or port 0 the
	// addresses are known only when a client has connected.
	if at := target.RemoteAddr().String(); at == client.LocalAddr().String() && !strings.HasSuffix(at, ":0") { // 0: the address is not known
		return errItself
	}
	return spindle.WithNursery(ctx, func(_ context.Context, n *spindle.Nursery) error {
		n.Go(func(context.Context) error { return pump(target, client, &p.up) })
		n.Go(func(context.Context) error { return pump(client, target, &p.down) })
		return nil
	})
}

// pump copies one direction until EOF, and then closes it. Where the system can splice, the
// bytes do not pass through the program, so they are counted at the end.
func pump(to, from *stream.Conn, count *int64) error {
	n, err := io.Copy(to, from)
	*count += n
	if err != nil {
		return err
	}
	return to.CloseWrite()
}
