package transport_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle/internal/simkernel"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// script is a Protocol made of functions, which may be nil. Unlike spy it implements no
// optional interface.
type script struct {
	made func(*transport.Conn)
	data func(*transport.Conn, []byte)
	lost func(*transport.Conn, error)
}

func (p *script) ConnectionMade(c *transport.Conn) {
	if p.made != nil {
		p.made(c)
	}
}
func (p *script) DataReceived(c *transport.Conn, data []byte) {
	if p.data != nil {
		p.data(c, data)
	}
}
func (p *script) ConnectionLost(c *transport.Conn, err error) {
	if p.lost != nil {
		p.lost(c, err)
	}
}

// stopWhenLost stops the loop when the connection is lost, which must be with want.
func stopWhenLost(t *testing.T, l *loop.Loop, want error) func(*transport.Conn, error) {
	return func(_ *transport.Conn, err error) {
		if !errors.Is(err, want) {
			t.Errorf("lost with %v, want %v", err, want)
		}
		l.Stop()
	}
}

func wrap(t *testing.T, l *loop.Loop, f syscall.Conn, p transport.Protocol) *transport.Conn {
	t.Helper()
	c, err := transport.Wrap(l, f, p)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

var big = bytes.Repeat([]byte("0123456789abcdef"), 1<<16)

func TestWrapPipeReader(t *testing.T) {
	withLoops(t, func(t *testing.T, l *loop.Loop) {
		r, w := pipe(t)
		var got []byte
		var calls []string
		c := wrap(t, l, r, &script{
			made: func(c *transport.Conn) { calls = append(calls, "made") },
			data: func(c *transport.Conn, data []byte) { got = append(got, data...) },
			lost: stopWhenLost(t, l, nil),
		})
		r.Close() // the connection has its own descriptor
		if len(calls) > 0 {
			t.Error("ConnectionMade was called inside Wrap")
		}
		if _, err := c.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the reading end accepted a write: %v", err)
		}
		go func() {
			w.Write(big)
			w.Close()
		}()
		run(t, l)
		if !bytes.Equal(got, big) {
			t.Errorf("%d of %d bytes arrived", len(got), len(big))
		}
	})
}

func TestWrapPipeWriter(t *testing.T) {
	ends := map[string]func(*transport.Conn){
		"close":     func(c *transport.Conn) { c.Close() },
		"write eof": func(c *transport.Conn) { c.WriteEOF() },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			withLoops(t, func(t *testing.T, l *loop.Loop) {
				r, w := pipe(t)
				wrap(t, l, w, &script{
					made: func(c *transport.Conn) {
						if a := c.LocalAddr(); a.String() != "pipe" || a.Network() != "pipe" {
							t.Errorf("address of a pipe: %v", a)
						}
						c.Write(big)
						end(c)
					},
					lost: stopWhenLost(t, l, nil),
				})
				w.Close()
				got := make(chan []byte, 1)
				go func() {
					all, _ := io.ReadAll(r)
					got <- all
				}()
				run(t, l)
				if all := <-got; !bytes.Equal(all, big) {
					t.Errorf("%d of %d bytes arrived", len(all), len(big))
				}
			})
		})
	}
}

func TestWrapPipeReaderCloses(t *testing.T) {
	withLoops(t, func(t *testing.T, l *loop.Loop) {
		r, w := pipe(t)
		wrap(t, l, w, &script{
			made: func(*transport.Conn) { r.Close() },
			lost: stopWhenLost(t, l, syscall.EPIPE),
		})
		run(t, l)
	})
}

func TestWrapNetConn(t *testing.T) {
	withLoops(t, func(t *testing.T, l *loop.Loop) {
		near, far := tcpPair(t)
		file, err := near.File() // like an inherited descriptor
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		wrap(t, l, file, &script{
			made: func(c *transport.Conn) {
				if c.RemoteAddr().String() != far.LocalAddr().String() {
					t.Errorf("the peer is %v", c.RemoteAddr())
				}
				c.Write([]byte("ping"))
			},
			data: func(c *transport.Conn, data []byte) { got = append(got, data...) },
			lost: stopWhenLost(t, l, nil),
		})
		file.Close()
		near.Close()
		go func() {
			buf := make([]byte, 4)
			io.ReadFull(far, buf)
			far.Write(bytes.ToUpper(buf))
			far.Close()
		}()
		run(t, l)
		if string(got) != "PING" {
			t.Errorf("got %q", got)
		}
	})
}

// tcpPair returns the two ends of a connection of package net.
func tcpPair(t *testing.T) (near, far *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	a, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a.(*net.TCPConn), b.(*net.TCPConn)
}

func TestWrapErrors(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	file, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	alone := os.NewFile(uintptr(fd), "alone")
	defer alone.Close()
	closed, _ := pipe(t)
	closed.Close()
	for _, tc := range []struct {
		name string
		c    syscall.Conn
		want error
	}{
		{"regular file", file, errors.ErrUnsupported},
		{"listener", ln.(*net.TCPListener), syscall.EPROTOTYPE},
		{"datagrams", udp.(*net.UDPConn), syscall.EPROTOTYPE},
		{"unconnected", alone, syscall.ENOTCONN},
		{"closed", closed, net.ErrClosed},
	} {
		_, err := transport.Wrap(l, tc.c, &script{})
		var op *net.OpError
		if !errors.Is(err, tc.want) || !errors.As(err, &op) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
	if _, err := transport.Wrap(l, rawFD(-1), &script{}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("an invalid descriptor: %v", err)
	}
	near, _ := tcpPair(t)
	o := transport.Options{Protocol: func() transport.Protocol { return &script{} }, Sock: near}
	if _, err := transport.Listen(l, "", "", o); !errors.Is(err, syscall.EPROTOTYPE) {
		t.Errorf("a connection as a listener: %v", err)
	}
}

// TestListenOnASocketWithAnAddress: it is one or the other.
func TestListenOnASocketWithAnAddress(t *testing.T) {
	withLoops(t, func(t *testing.T, l *loop.Loop) {
		near, _ := tcpPair(t)
		defer func() {
			if text := fmt.Sprint(recover()); !strings.Contains(text, "Listen with Options.Sock and an address") {
				t.Errorf("panic %q", text)
			}
		}()
		transport.Listen(l, "tcp", "127.0.0.1:0", transport.Options{Protocol: func() transport.Protocol { return &script{} }, Sock: near})
	})
}

func TestWrapWithoutNative(t *testing.T) {
	l, err := loop.New(loop.Internal().WithKernel(loop.Options{}, simkernel.NewKernel()))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r, _ := pipe(t)
	if _, err := transport.Wrap(l, r, &script{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("wrapped: %v", err)
	}
}

func TestWrapCloseBeforeMade(t *testing.T) {
	withLoops(t, func(t *testing.T, l *loop.Loop) {
		p, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Close(p[1])
		var calls []string
		c := wrapFD(t, l, p[0], &script{
			made: func(*transport.Conn) { calls = append(calls, "made") },
			data: func(*transport.Conn, []byte) { calls = append(calls, "got") },
			lost: func(*transport.Conn, error) { calls = append(calls, "lost"); l.Stop() },
		})
		syscall.Close(p[0])
		c.Close()
		run(t, l)
		if len(calls) != 2 || calls[0] != "made" || calls[1] != "lost" {
			t.Errorf("calls %v", calls)
		}
	})
}

// TestWrapPauseBeforeMade: PauseReading takes effect before ConnectionMade.
func TestWrapPauseBeforeMade(t *testing.T) {
	withLoops(t, func(t *testing.T, l *loop.Loop) {
		r, w := pipe(t)
		w.Write([]byte("x"))
		paused := true
		c := wrap(t, l, r, &script{
			data: func(c *transport.Conn, _ []byte) {
				if paused {
					t.Error("data while paused")
				}
				c.Close()
			},
			lost: stopWhenLost(t, l, nil),
		})
		c.PauseReading()
		l.CallLater(retryDelay, func() {
			paused = false
			c.ResumeReading()
		})
		run(t, l)
	})
}

// TestWrapDataBeforeMade: data waits for ConnectionMade. With enough callbacks queued
// before that, the loop polls the kernel first.
func TestWrapDataBeforeMade(t *testing.T) {
	withLoops(t, func(t *testing.T, l *loop.Loop) {
		r, w := pipe(t)
		w.Write([]byte("x"))
		for range 300 {
			l.CallSoon(func() {})
		}
		var calls []string
		wrap(t, l, r, &script{
			made: func(*transport.Conn) { calls = append(calls, "made") },
			data: func(c *transport.Conn, _ []byte) { calls = append(calls, "got"); c.Close() },
			lost: stopWhenLost(t, l, nil),
		})
		run(t, l)
		if len(calls) != 2 || calls[0] != "made" {
			t.Errorf("calls %v", calls)
		}
	})
}

func TestListenOnASocket(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			withLoops(t, func(t *testing.T, l *loop.Loop) {
				address := "127.0.0.1:0"
				if network == "unix" {
					address = filepath.Join(t.TempDir(), "s")
				}
				ln, err := net.Listen(network, address)
				if err != nil {
					t.Fatal(err)
				}
				defer ln.Close()
				s, err := transport.Listen(l, "", "", transport.Options{Sock: ln.(syscall.Conn),
					Protocol: func() transport.Protocol {
						return &script{
							made: func(c *transport.Conn) { c.Write([]byte("hello")); c.Close() },
							lost: stopWhenLost(t, l, nil),
						}
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				if s.Addr().String() != ln.Addr().String() || s.Addr().Network() != network {
					t.Errorf("listens at %v", s.Addr())
				}
				c, err := net.Dial(network, ln.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				run(t, l)
				if got, err := io.ReadAll(c); err != nil || string(got) != "hello" {
					t.Errorf("%q, %v", got, err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				if network == "unix" {
					if _, err := os.Lstat(address); err != nil {
						t.Errorf("the path of the original listener was removed: %v", err)
					}
				}
			})
		})
	}
}
