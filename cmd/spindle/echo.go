package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/loop"
)

const echoHelp = `
spindle echo serves TCP connections on event loops and sends back what it
receives, until it is interrupted.

  spindle echo                               one loop on 127.0.0.1:9000
  spindle echo --loops 4 --addr :9000        four loops that share the port
  nc 127.0.0.1 9000                          try it: what you type comes back

Port 0 takes a free port; the line on standard output says which.
`

func runEcho(ctx context.Context, args []string, out, _ io.Writer) error {
	flags := flag.NewFlagSet("echo", flag.ContinueOnError)
	addr := flags.String("addr", "127.0.0.1:9000", "`HOST:PORT` to listen on")
	model := flags.String("model", "callback", "`MODEL` of the server: callback, or coroutine (a task per connection)")
	backend := flags.String("backend", "auto", "`POLLER` underneath: auto, epoll, kqueue or poll")
	loops := flags.Int("loops", 1, "`N` loops, each on a goroutine of its own")
	if err := parse(flags, echoHelp, args, out); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q; see 'spindle echo --help'", flags.Arg(0))
	case echoModels[*model] == nil:
		return fmt.Errorf("unknown model %q (have callback, coroutine)", *model)
	case *loops < 1:
		return fmt.Errorf("--loops %d: need at least one", *loops)
	}
	at, err := resolve(ctx, *addr)
	if err != nil {
		return err
	}
	group, err := loop.NewGroup(*loops, loop.Options{Backend: *backend})
	if err != nil {
		return err
	}
	defer group.Close()
	servers := make([]echoModel, *loops)
	for i, l := range group.Loops() {
		servers[i] = echoModels[*model](l)
		accept := &acceptor{l: l, k: l.Kernel(), serve: servers[i].serve}
		if at, err = accept.listen(at, *loops > 1); err != nil {
			return fmt.Errorf("listen on %v: %w; choose another with --addr", at, err)
		}
		defer accept.close()
	}
	fmt.Fprintf(out, "spindle echo: listening on %v (%s, %s, %d %s)\n",
		at, *model, group.Loops()[0].Backend(), *loops, plural(*loops, "loop"))
	if err := runAll(ctx, servers); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// echoModel is a way to write the server, on one loop.
type echoModel interface {
	serve(fd int)                  // a new connection; on the loop
	run(ctx context.Context) error // runs the loop
}

var echoModels = map[string]func(*loop.Loop) echoModel{
	"callback":  newCallbackEcho,
	"coroutine": newCoroutineEcho,
}

// runAll runs every server on a goroutine of its own; the first failure ends
// the others.
func runAll(ctx context.Context, servers []echoModel) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for _, s := range servers {
		all.Go(func() {
			if err := s.run(ctx); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

func plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// resolve turns what a person writes as an address into one to bind.
func resolve(ctx context.Context, addr string) (kernel.Addr, error) {
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return kernel.Addr{}, fmt.Errorf("bad address %q: want HOST:PORT", addr)
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "tcp", service)
	if err != nil {
		return kernel.Addr{}, fmt.Errorf("bad port in address %q: want 0 to 65535, or a service's name", addr)
	}
	ip := netip.IPv4Unspecified()
	if host != "" {
		ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			return kernel.Addr{}, fmt.Errorf("bad host in address %q: %w", addr, err)
		}
		ip = ips[0].Unmap()
	}
	return kernel.Addr{AddrPort: netip.AddrPortFrom(ip, uint16(port))}, nil
}

// acceptor listens on a loop and takes connections.
type acceptor struct {
	l     *loop.Loop
	k     *kernel.Kernel
	fd    int
	serve func(fd int)
}

func (a *acceptor) listen(at kernel.Addr, shared bool) (kernel.Addr, error) {
	fd, err := a.k.Socket(at.Family(), kernel.Stream)
	if err != nil {
		return at, err
	}
	a.fd = fd
	steps := []func() error{
		func() error { return a.k.SetOption(fd, kernel.ReuseAddr, 1) },
		func() error {
			if !shared {
				return nil
			}
			return a.k.SetOption(fd, kernel.ReusePort, 1)
		},
		func() error { return a.k.Bind(fd, at) },
		func() error { return a.k.Listen(fd, 4096) },
		func() error { return a.l.AddReader(fd, a.accept) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			a.k.CloseFD(fd)
			return at, err
		}
	}
	return a.k.LocalAddr(fd)
}

// acceptRest is how long a server waits when it is out of descriptors.
const acceptRest = 50 * time.Millisecond

func (a *acceptor) accept() {
	for range 64 {
		fd, err := a.k.Accept(a.fd)
		switch err {
		case nil:
			a.serve(fd)
		case syscall.ECONNABORTED: // gone before we came
		case syscall.EAGAIN:
			return
		default:
			// Out of descriptors or memory: the listener stays ready, so
			// look away for a while instead of spinning.
			a.l.RemoveReader(a.fd)
			a.l.CallLater(acceptRest, a.resume)
			return
		}
	}
}

// resume looks at the listener again, as soon as that is possible.
func (a *acceptor) resume() {
	if err := a.l.AddReader(a.fd, a.accept); err != nil {
		a.l.CallLater(acceptRest, a.resume)
	}
}

func (a *acceptor) close() { a.k.CloseFD(a.fd) }
