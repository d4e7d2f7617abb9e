package transport_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// spy is a protocol made of functions, any of which may be nil. It watches over
// the order of what it is told.
type spy struct {
	tb     testing.TB
	made   func(c *transport.Conn)
	data   func(c *transport.Conn, data []byte)
	eof    func(c *transport.Conn) bool
	pause  func(c *transport.Conn)
	resume func(c *transport.Conn)
	lost   func(c *transport.Conn, err error)

	isMade, isLost, isPaused bool
}

func (p *spy) told(what string) {
	if p.isMade == (what == "ConnectionMade") {
		p.tb.Errorf("%s, made %v before", what, p.isMade)
	}
	if p.isLost {
		p.tb.Errorf("%s after ConnectionLost", what)
	}
}

func (p *spy) ConnectionMade(c *transport.Conn) {
	p.told("ConnectionMade")
	p.isMade = true
	if p.made != nil {
		p.made(c)
	}
}

func (p *spy) DataReceived(c *transport.Conn, data []byte) {
	p.told("DataReceived")
	if p.data != nil {
		p.data(c, data)
	}
}

func (p *spy) EOFReceived(c *transport.Conn) bool {
	p.told("EOFReceived")
	return p.eof != nil && p.eof(c)
}

func (p *spy) PauseWriting(c *transport.Conn) {
	p.told("PauseWriting")
	if p.isPaused {
		p.tb.Error("PauseWriting twice")
	}
	p.isPaused = true
	if p.pause != nil {
		p.pause(c)
	}
}

func (p *spy) ResumeWriting(c *transport.Conn) {
	p.told("ResumeWriting")
	if !p.isPaused {
		p.tb.Error("ResumeWriting without PauseWriting")
	}
	p.isPaused = false
	if p.resume != nil {
		p.resume(c)
	}
}

func (p *spy) ConnectionLost(c *transport.Conn, err error) {
	p.told("ConnectionLost")
	p.isLost = true
	if p.lost != nil {
		p.lost(c, err)
	}
}

// onEvery runs a test on each poller the system has.
func onEvery(t *testing.T, test func(t *testing.T, o loop.Options)) {
	for _, name := range kernel.Backends() {
		t.Run(name, func(t *testing.T) { test(t, loop.Options{Backend: name}) })
	}
}

// steady runs a loop in the background until the test ends, and looks then whether
// anything is left open.
func steady(t *testing.T, o loop.Options, prepare func(l *loop.Loop)) *loop.Loop {
	t.Helper()
	o.Watchdog = -1 // a busy machine says nothing of the code
	o.Debug = true  // nobody keeps what is lent
	l, err := loop.New(o)
	if err != nil {
		t.Fatal(err)
	}
	prepare(l)
	ended := make(chan error, 1)
	go func() { ended <- l.Run(context.Background()) }()
	t.Cleanup(func() {
		l.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		hub := sock.RegistryOf(l)
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if n := hub.Open(); n != 0 {
			t.Errorf("%d sockets left", n)
		}
	})
	return l
}

// serving is a server on a loop of its own, that makes its protocols by make.
func serving(t *testing.T, o loop.Options, network, address string, so transport.Options, make func() *spy) (*loop.Loop, *transport.Server) {
	t.Helper()
	var s *transport.Server
	so.Protocol = func() transport.Protocol {
		p := make()
		p.tb = t
		return p
	}
	l := steady(t, o, func(l *loop.Loop) {
		var err error
		if s, err = transport.Listen(l, network, address, so); err != nil {
			t.Fatal(err)
		}
	})
	return l, s
}

// on runs fn on a running loop and waits for it.
func on(t testing.TB, l *loop.Loop, fn func()) {
	t.Helper()
	done := make(chan bool)
	if err := l.Post(func() {
		defer close(done)
		fn()
	}); err != nil {
		t.Fatal(err)
	}
	<-done
}

// until waits for a condition of the loop's, turn after turn.
func until(t testing.TB, l *loop.Loop, condition func() bool) {
	t.Helper()
	done := make(chan bool)
	var look func()
	look = func() {
		if condition() {
			close(done)
			return
		}
		l.CallLater(1e6, look)
	}
	if err := l.Post(look); err != nil {
		t.Fatal(err)
	}
	<-done
}

func dial(t testing.TB, s *transport.Server) net.Conn {
	t.Helper()
	c, err := net.Dial(s.Addr().Network(), s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// reset ends a TCP connection with an RST.
func reset(t testing.TB, c net.Conn) {
	t.Helper()
	if err := c.(*net.TCPConn).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	c.Close()
}

var names atomic.Int64

// abstract is a Unix address that nobody has.
func abstract() string {
	return fmt.Sprintf("@spindle-%d-%d", os.Getpid(), names.Add(1))
}

// block is n bytes in which none is lost or doubled unnoticed.
func block(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i % 251)
	}
	return p
}

func drainAll(r io.Reader) int64 {
	n, _ := io.Copy(io.Discard, r)
	return n
}

func ignoreEOF(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}
