package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
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
	model := flags.String("model", "callback", "`MODEL` of the server: callback")
	backend := flags.String("backend", "auto", "`POLLER` underneath: auto, epoll, kqueue or poll")
	loops := flags.Int("loops", 1, "`N` loops, each on a goroutine of its own")
	if err := parse(flags, echoHelp, args, out); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q; see 'spindle echo --help'", flags.Arg(0))
	case *model != "callback":
		return fmt.Errorf("unknown model %q (have callback)", *model)
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
	for _, l := range group.Loops() {
		s := &echoServer{l: l, k: l.Kernel(), buf: make([]byte, 64<<10)}
		s.flushing = s.flush
		if at, err = s.listen(at, *loops > 1); err != nil {
			return fmt.Errorf("listen on %v: %w; choose another with --addr", at, err)
		}
		defer s.k.CloseFD(s.fd)
	}
	fmt.Fprintf(out, "spindle echo: listening on %v (%s, %s, %d %s)\n",
		at, *model, group.Loops()[0].Backend(), *loops, plural(*loops, "loop"))
	if err := group.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
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

// echoServer is one loop's listener. What its connections share is here, so
// that a connection is small.
type echoServer struct {
	l        *loop.Loop
	k        *kernel.Kernel
	fd       int
	flushing func() // s.flush
	buf      []byte // every read goes here: one callback runs at a time

	// What was read in this turn and is written at its end.
	echoes []echo
	used   int // bytes of buf that echoes hold
}

// echo is a message to be sent back.
type echo struct {
	c *echoConn
	p []byte
}

func (s *echoServer) listen(at kernel.Addr, shared bool) (kernel.Addr, error) {
	fd, err := s.k.Socket(at.Family(), kernel.Stream)
	if err != nil {
		return at, err
	}
	s.fd = fd
	steps := []func() error{
		func() error { return s.k.SetOption(fd, kernel.ReuseAddr, 1) },
		func() error {
			if !shared {
				return nil
			}
			return s.k.SetOption(fd, kernel.ReusePort, 1)
		},
		func() error { return s.k.Bind(fd, at) },
		func() error { return s.k.Listen(fd, 4096) },
		func() error { return s.l.AddReader(fd, s.accept) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			s.k.CloseFD(fd)
			return at, err
		}
	}
	return s.k.LocalAddr(fd)
}

// acceptRest is how long a server waits when it is out of descriptors.
const acceptRest = 50 * time.Millisecond

func (s *echoServer) accept() {
	for range 64 {
		fd, err := s.k.Accept(s.fd)
		switch err {
		case nil:
			s.serve(fd)
		case syscall.ECONNABORTED: // gone before we came
		case syscall.EAGAIN:
			return
		default:
			// Out of descriptors or memory: the listener stays ready, so
			// look away for a while instead of spinning.
			s.l.RemoveReader(s.fd)
			s.l.CallLater(acceptRest, func() { s.l.AddReader(s.fd, s.accept) })
			return
		}
	}
}

func (s *echoServer) serve(fd int) {
	s.k.SetOption(fd, kernel.NoDelay, 1)
	c := &echoConn{s: s, fd: fd}
	var err error
	if c.watch, err = s.l.Watch(fd, loop.Read, loop.Edge, c.ready); err != nil {
		s.k.CloseFD(fd)
	}
}

// leastRoom is how much of buf must be free to read into it.
const leastRoom = 16 << 10

// collect reads a message to be echoed at the end of the turn, when everything
// there was to read has been read: all reads and then all writes are a few
// percent faster than one after the other. It tells whether c is settled.
func (s *echoServer) collect(c *echoConn) bool {
	room := s.buf[s.used:]
	if len(room) < leastRoom {
		s.flush()
		room = s.buf
	}
	n, err := s.k.Recv(c.fd, room)
	if err == syscall.EAGAIN {
		return true
	}
	if err != nil || n == 0 {
		s.flush()
		if c.fd >= 0 && (err != nil || c.unsent == nil) { // else the end is there again when all is sent
			c.close()
		}
		return true
	}
	if len(s.echoes) == 0 {
		s.l.CallSoonPriority(loop.High, s.flushing)
	}
	s.echoes = append(s.echoes, echo{c, room[:n]})
	s.used += n
	return n < len(room)
}

func (s *echoServer) flush() {
	for i, e := range s.echoes {
		s.echoes[i] = echo{}
		if e.c.fd >= 0 {
			e.c.send(e.p)
		}
	}
	s.echoes, s.used = s.echoes[:0], 0
}

// echoConn is a connection. It reads only while it has nothing to write, so
// that a peer that does not read is not read from either.
type echoConn struct {
	s      *echoServer
	watch  loop.Watch
	unsent *[]byte // waits for room; nil nearly always
	fd     int     // -1 once closed
}

func (c *echoConn) ready(r loop.Ready) {
	if c.unsent != nil && !c.flush() {
		return
	}
	if r&loop.HangUp == 0 && c.s.collect(c) {
		return
	}
	c.s.flush()
	if c.fd < 0 || c.unsent != nil { // the flush was about c too
		return
	}
	for range 16 {
		buf := c.s.buf
		n, err := c.s.k.Recv(c.fd, buf)
		if err == syscall.EAGAIN {
			return
		}
		if err != nil || n == 0 {
			c.close()
			return
		}
		if !c.send(buf[:n]) {
			return
		}
		// A short read has emptied the socket: the next bytes are a new
		// edge. Only the end may have come with the bytes.
		if n < len(buf) && r&loop.HangUp == 0 {
			return
		}
	}
	// This peer sends faster than we echo: let the others have a turn.
	c.s.l.CallSoon(func() {
		if c.fd >= 0 {
			c.ready(r)
		}
	})
}

// send writes p, keeps what does not fit, and tells whether all of it did.
func (c *echoConn) send(p []byte) bool {
	if c.unsent != nil { // two messages of one turn
		*c.unsent = append(*c.unsent, p...)
		return false
	}
	n, err := c.s.k.Send(c.fd, p)
	switch {
	case err != nil && err != syscall.EAGAIN:
		c.close()
		return false
	case n == len(p):
		return true
	}
	rest := append([]byte(nil), p[n:]...)
	c.unsent = &rest
	c.listenFor(loop.Write)
	return false
}

// flush writes what is unsent and tells whether nothing is left.
func (c *echoConn) flush() bool {
	n, err := c.s.k.Send(c.fd, *c.unsent)
	if err != nil && err != syscall.EAGAIN {
		c.close()
		return false
	}
	if *c.unsent = (*c.unsent)[n:]; len(*c.unsent) > 0 {
		return false
	}
	c.unsent = nil
	return c.listenFor(loop.Read)
}

func (c *echoConn) listenFor(in loop.Interest) bool {
	if err := c.watch.Modify(in, loop.Edge); err != nil {
		c.close()
		return false
	}
	return true
}

func (c *echoConn) close() {
	c.watch.Cancel()
	c.s.k.CloseFD(c.fd)
	c.fd = -1
}
