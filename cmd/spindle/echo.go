package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"

	"github.com/spindleloop/spindle/loop"
)

const echoHelp = `
spindle echo sends back what it receives, until it is interrupted.

  spindle echo                               one loop on 127.0.0.1:9000
  spindle echo --loops 4 --addr :9000        four loops that share the port
  spindle echo --network unix --addr /tmp/e  a Unix socket
  spindle echo --network udp                 datagrams
  spindle echo --network tls --tls-cert c.pem --tls-key k.pem
  spindle connect 127.0.0.1:9000             try it: what you type comes back

Port 0 chooses a free port, which the server prints. Several loops share their port
(SO_REUSEPORT); another server of the same user that shares the port is not detected.
Without TLS files, the server makes a self-signed certificate.
`

// endpoint is the address that a server listens on.
type endpoint struct {
	network string
	address string
	shared  bool // with the other loops
	tls     *tls.Config
}

// echoServer serves on one loop until ctx ends. It calls ready with the address it listens
// on.
type echoServer func(ctx context.Context, l *loop.Loop, at endpoint, ready func(net.Addr)) error

// echoServers are the servers by model and network.
var echoServers = map[string]map[string]echoServer{
	"protocol":  {"tcp": protocolEcho, "unix": protocolEcho, "udp": datagramEcho, "tls": protocolEcho},
	"coroutine": {"tcp": coroutineEcho, "unix": coroutineEcho, "udp": packetEcho, "tls": tlsEcho},
}

func runEcho(ctx context.Context, args []string, out, _ io.Writer) error {
	flags := flag.NewFlagSet("echo", flag.ContinueOnError)
	addr := flags.String("addr", "127.0.0.1:9000", "`HOST:PORT` or path to listen on")
	model := flags.String("model", "protocol", "`MODEL` of the server: protocol (callbacks), or coroutine (a task for each connection)")
	network := flags.String("network", "tcp", "`NETWORK` to serve: tcp, unix, udp or tls")
	certFile := flags.String("tls-cert", "", "`FILE` with the certificate, for --network tls only")
	keyFile := flags.String("tls-key", "", "`FILE` with the certificate's key")
	backend := flags.String("backend", "auto", "`POLLER` to use: auto, poll, epoll (Linux) or kqueue (BSD, macOS)")
	loops := flags.Int("loops", 1, "number `N` of loops, each on its own goroutine")
	if err := parse(flags, echoHelp, args, out); err != nil {
		return err
	}
	server := echoServers[*model][*network]
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q; see 'spindle echo --help'", flags.Arg(0))
	case echoServers[*model] == nil:
		return fmt.Errorf("unknown model %q (have protocol, coroutine)", *model)
	case server == nil:
		return fmt.Errorf("unknown network %q (have tcp, unix, udp, tls)", *network)
	case *loops < 1:
		return fmt.Errorf("--loops %d: want at least 1", *loops)
	case *network == "unix" && *loops > 1:
		return errors.New("--loops: only one loop can listen on a Unix socket")
	case *network != "tls" && *certFile+*keyFile != "":
		return errors.New("--tls-cert, --tls-key: only for --network tls")
	case *network == "udp" && *model == "coroutine" && *loops > 1:
		return errors.New("--loops: only one loop can receive datagrams in this model")
	}
	at := endpoint{network: *network, address: *addr, shared: *loops > 1}
	if *network == "tls" {
		var err error
		if at.tls, err = certificate(*certFile, *keyFile); err != nil {
			return err
		}
	}
	if *network != "unix" {
		var err error
		if at.address, err = resolve(ctx, *addr); err != nil {
			return err
		}
	}
	group, err := loop.NewGroup(*loops, loop.Options{Name: "echo", Backend: *backend})
	if err != nil {
		return err
	}
	defer group.Close()
	err = serveAll(ctx, group.Loops(), server, at, func(a net.Addr) {
		fmt.Fprintf(out, "spindle echo: listening on %v (%s, %s, %d %s)\n",
			a, *model, group.Loops()[0].Internal().Kernel().Name(), *loops, plural(*loops, "loop"))
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return listenError(err, at.address, "choose another with --addr")
}

// serveAll runs a server on each loop, each on its own goroutine. The first failure ends the
// others. It calls listening when all of them listen.
func serveAll(ctx context.Context, loops []*loop.Loop, serve echoServer, at endpoint, listening func(net.Addr)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for _, l := range loops {
		ready := make(chan net.Addr, 1)
		all.Go(func() {
			if err := serve(ctx, l, at, func(a net.Addr) { ready <- a }); err != nil {
				cancel(err)
			}
		})
		select {
		case a := <-ready:
			at.address = a.String() // the others use the port that the first one got
		case <-ctx.Done():
		}
	}
	if ctx.Err() == nil {
		listening(printedAddr(at))
	}
	all.Wait()
	return context.Cause(ctx)
}

// printedAddr makes an endpoint a net.Addr.
type printedAddr endpoint

func (a printedAddr) Network() string { return a.network }
func (a printedAddr) String() string  { return a.address }

func plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// resolve turns an address from the command line into an address to bind.
func resolve(ctx context.Context, addr string) (string, error) {
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("bad address %q: want HOST:PORT", addr)
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "tcp", service)
	if err != nil {
		return "", fmt.Errorf("bad port in address %q: want 0 to 65535, or a service's name", addr)
	}
	ip := netip.IPv4Unspecified()
	if host != "" {
		ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			return "", fmt.Errorf("bad host in address %q: %w", addr, err)
		}
		ip = ips[0].Unmap()
	}
	return netip.AddrPortFrom(ip, uint16(port)).String(), nil
}
