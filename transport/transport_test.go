package transport_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
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

// running runs a loop in the background, prepared by prepare, until the test ends.
func running(t *testing.T, prepare func(l *loop.Loop)) *loop.Loop {
	t.Helper()
	l, err := loop.New(loop.Options{})
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
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// TestEcho: what is sent comes back, small and large, and the end is clean.
func TestEcho(t *testing.T) {
	lost := make(chan error, 1)
	var s *transport.Server
	running(t, func(l *loop.Loop) {
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

// client is a protocol that says something and collects the answer.
type client struct {
	say  []byte
	got  bytes.Buffer
	lost func(error)
}

func (p *client) ConnectionMade(c *transport.Conn) {
	c.Write(p.say)
	c.WriteEOF()
}
func (p *client) DataReceived(c *transport.Conn, data []byte) { p.got.Write(data) }
func (p *client) ConnectionLost(c *transport.Conn, err error) { p.lost(err) }

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
		t.Fatalf("a name is refused with %v", err)
	}
	s, err := transport.Listen(l, "tcp", ":0", transport.Options{Protocol: func() transport.Protocol { return echo{lost} }})
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(s.Addr().String())
	p := &client{say: []byte("hello"), lost: func(err error) {
		if err != nil {
			t.Error(err)
		}
		s.Close()
		l.Stop()
	}}
	transport.Connect(t.Context(), l, "tcp", "localhost:"+port, p, transport.ConnectOptions{}, func(err error) {
		t.Error(err)
		l.Stop()
	})
	if err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.got.String() != "hello" {
		t.Errorf("got %q", p.got.String())
	}
}
