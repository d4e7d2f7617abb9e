package transport_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// spy is a protocol made of functions, which may be nil. It checks the order of the
// callbacks.
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

func (p *spy) checkOrder(what string) {
	if p.isMade == (what == "ConnectionMade") {
		p.tb.Errorf("%s with ConnectionMade called before: %v", what, p.isMade)
	}
	if p.isLost {
		p.tb.Errorf("%s after ConnectionLost", what)
	}
}

func (p *spy) ConnectionMade(c *transport.Conn) {
	p.checkOrder("ConnectionMade")
	p.isMade = true
	if p.made != nil {
		p.made(c)
	}
}

func (p *spy) DataReceived(c *transport.Conn, data []byte) {
	p.checkOrder("DataReceived")
	if p.data != nil {
		p.data(c, data)
	}
}

func (p *spy) EOFReceived(c *transport.Conn) bool {
	p.checkOrder("EOFReceived")
	return p.eof != nil && p.eof(c)
}

func (p *spy) PauseWriting(c *transport.Conn) {
	p.checkOrder("PauseWriting")
	if p.isPaused {
		p.tb.Error("PauseWriting twice")
	}
	p.isPaused = true
	if p.pause != nil {
		p.pause(c)
	}
}

func (p *spy) ResumeWriting(c *transport.Conn) {
	p.checkOrder("ResumeWriting")
	if !p.isPaused {
		p.tb.Error("ResumeWriting without PauseWriting")
	}
	p.isPaused = false
	if p.resume != nil {
		p.resume(c)
	}
}

func (p *spy) ConnectionLost(c *transport.Conn, err error) {
	p.checkOrder("ConnectionLost")
	p.isLost = true
	if p.lost != nil {
		p.lost(c, err)
	}
}

// onPollers runs a test for each poller that the system supports.
func onPollers(t *testing.T, test func(t *testing.T, o loop.Options)) {
	for _, name := range short.Backends() {
		t.Run(name, func(t *testing.T) { test(t, loop.Options{Backend: name}) })
	}
}

// running prepares a loop and runs it in the background until the test ends. Then it
// checks that no socket is left open.
func running(t *testing.T, o loop.Options, prepare func(l *loop.Loop)) *loop.Loop {
	t.Helper()
	o.Watchdog = -1 // slow turns on a busy machine are not failures
	o.Debug = true  // overwrite lent data
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
		sockets := sock.RegistryOf(l)
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if n := sockets.Open(); n != 0 {
			t.Errorf("%d sockets left open", n)
		}
	})
	return l
}

// serving starts a server on a loop of its own. make makes its protocols.
func serving(t *testing.T, o loop.Options, network, address string, so transport.Options, make func() *spy) (*loop.Loop, *transport.Server) {
	t.Helper()
	var s *transport.Server
	so.Protocol = func() transport.Protocol {
		p := make()
		p.tb = t
		return p
	}
	l := running(t, o, func(l *loop.Loop) {
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

var abstractNames atomic.Int64

// abstract returns an unused abstract Unix address.
func abstract() string {
	return fmt.Sprintf("@spindle-%d-%d", os.Getpid(), abstractNames.Add(1))
}

// block returns n bytes of the pattern.
func block(n int) []byte { return pattern(0, n) }

// pattern returns n bytes, from the given position of a sequence in which no lost or
// duplicated block goes unnoticed: its period is a prime.
func pattern(from, n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte((from + i) % 251)
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

// heapInUse returns the memory in use by the heap and by stacks.
func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
