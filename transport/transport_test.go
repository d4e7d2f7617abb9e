package transport_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

type echo struct{ lost chan error }

func (echo) ConnectionMade(c *transport.Conn)            {}
func (echo) DataReceived(c *transport.Conn, data []byte) { c.Write(data) }
func (e echo) ConnectionLost(c *transport.Conn, err error) {
	e.lost <- err
}
func (echo) PauseWriting(c *transport.Conn)  { c.PauseReading() }
func (echo) ResumeWriting(c *transport.Conn) { c.ResumeReading() }

// TestEcho: small and large data is echoed, and the connection ends without an error.
func TestEcho(t *testing.T) {
	lost := make(chan error, 1)
	var s *transport.Server
	running(t, loop.Options{}, func(l *loop.Loop) {
		var err error
		s, err = transport.Listen(l, "tcp", "127.0.0.1:0", transport.Options{
			Protocol: func() transport.Protocol { return echo{lost} },
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	sent := bytes.Repeat([]byte("0123456789"), 1<<20)
	go func() {
		c.Write(sent)
		c.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d of %d bytes came back, %v", len(got), len(sent), err)
	}
	if err := <-lost; err != nil {
		t.Errorf("lost with %v", err)
	}
	c.Close()
}

// collector is a client that sends a message and collects the reply.
type collector struct {
	say  []byte
	got  bytes.Buffer
	lost func(error)
}

func (p *collector) ConnectionMade(c *transport.Conn) {
	c.Write(p.say)
	c.WriteEOF()
}
func (p *collector) DataReceived(c *transport.Conn, data []byte) { p.got.Write(data) }
func (p *collector) ConnectionLost(c *transport.Conn, err error) { p.lost(err) }

func TestConnect(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	lost := make(chan error, 1)
	_, err = transport.Listen(l, "tcp", "localhost:0", transport.Options{Protocol: func() transport.Protocol { return echo{lost} }})
	var addrError *net.AddrError
	if !errors.As(err, &addrError) {
		t.Fatalf("Listen on a host name: %v", err)
	}
	s, err := transport.Listen(l, "tcp", ":0", transport.Options{Protocol: func() transport.Protocol { return echo{lost} }})
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(s.Addr().String())
	p := &collector{say: []byte("hello"), lost: func(err error) {
		if err != nil {
			t.Error(err)
		}
		s.Close()
		l.Stop()
	}}
	transport.Connect(t.Context(), l, "tcp", "localhost:"+port, transport.ConnectOptions{Protocol: p, OnError: func(err error) {
		t.Error(err)
		l.Stop()
	}})
	if err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.got.String() != "hello" {
		t.Errorf("got %q", p.got.String())
	}
}

// TestMethodsPanicOffLoop: a method called from another goroutine panics and names
// itself.
func TestMethodsPanicOffLoop(t *testing.T) {
	made := make(chan *transport.Conn, 1)
	_, s := serving(t, loop.Options{}, "tcp", "127.0.0.1:0", transport.Options{}, func() *spy {
		return &spy{made: func(c *transport.Conn) { made <- c }}
	})
	dial(t, s)
	c := <-made
	for name, call := range map[string]func(){
		"Write":          func() { c.Write(nil) },
		"Writev":         func() { c.Writev(nil) },
		"WriteEOF":       func() { c.WriteEOF() },
		"Close":          func() { c.Close() },
		"Abort":          func() { c.Abort() },
		"PauseReading":   func() { c.PauseReading() },
		"ResumeReading":  func() { c.ResumeReading() },
		"SetProtocol":    func() { c.SetProtocol(&spy{}) },
		"AfterFlush":     func() { c.AfterFlush(func(error) {}) },
		"SetWriteLimits": func() { c.SetWriteLimits(1, 0) },
		"SetIdleTimeout": func() { c.SetIdleTimeout(0) },
		"Info":           func() { c.Info() },
		"Unsent":         func() { c.Unsent() },
		"IsClosing":      func() { c.IsClosing() },
		"LocalAddr":      func() { c.LocalAddr() },
		"RemoteAddr":     func() { c.RemoteAddr() },
		"Protocol":       func() { c.Protocol() },
		"setting":        func() { c.SetNoDelay(true) },
		"Listen": func() {
			transport.Listen(c.Loop(), "tcp", ":0", transport.Options{Protocol: func() transport.Protocol { return nil }})
		},
	} {
		func() {
			defer func() {
				said, _ := recover().(string)
				if !strings.Contains(said, name) && !strings.Contains(said, "Close") || !strings.Contains(said, "Post") {
					t.Errorf("%s panics with %q", name, said)
				}
			}()
			call()
		}()
	}
}
