package transport_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"testing"

	"github.com/spindleloop/spindle/internal/tlstest"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// servingStartTLS returns a protocol that starts TLS when the client requests it.
func servingStartTLS(t *testing.T, lost chan error, o transport.StartTLSOptions) *spy {
	o.Server = true
	clear := true
	return &spy{
		data: func(c *transport.Conn, data []byte) {
			if !clear {
				c.Write(data)
				return
			}
			line, rest, _ := bytes.Cut(data, []byte("\n"))
			if string(line) != "STARTTLS" {
				t.Errorf("received %q before TLS", data)
			}
			clear = false
			o.Ahead = rest
			c.Write([]byte("go on\n"))
			if err := c.StartTLS(tlstest.Identity().Server, func() { c.Write([]byte("secured ")) }, o); err != nil {
				t.Error(err)
			}
			if c.TLS() != nil {
				t.Error("TLS returned a state before the handshake was done")
			}
			c.Write([]byte("meanwhile "))
		},
		lost: func(c *transport.Conn, err error) { lost <- err },
	}
}

// plainPrefix is the client's connection below crypto/tls. It sends the plain request in
// one packet with the handshake, and records the plain reply.
type plainPrefix struct {
	net.Conn
	say, heard string
}

func (c *plainPrefix) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(append([]byte(c.say), p...))
	n -= len(c.say)
	c.say = ""
	return n, err
}

func (c *plainPrefix) Read(p []byte) (int, error) {
	if c.heard == "" {
		answer := make([]byte, len("go on\n"))
		if _, err := io.ReadFull(c.Conn, answer); err != nil {
			return 0, err
		}
		c.heard = string(answer)
	}
	return c.Conn.Read(p)
}

// TestStartTLS: bytes written before are sent unencrypted, and bytes written during the
// handshake wait, in order. A peer need not wait for the plain reply.
func TestStartTLS(t *testing.T) {
	onPollers(t, func(t *testing.T, o loop.Options) {
		for name, ask := range map[string]func(raw net.Conn) *plainPrefix{
			"waits": func(raw net.Conn) *plainPrefix {
				raw.Write([]byte("STARTTLS\n"))
				return &plainPrefix{Conn: raw}
			},
			"does not wait": func(raw net.Conn) *plainPrefix { return &plainPrefix{Conn: raw, say: "STARTTLS\n"} },
		} {
			lost := make(chan error, 1)
			_, s := serving(t, o, "tcp", "127.0.0.1:0", transport.Options{}, func() *spy { return servingStartTLS(t, lost, transport.StartTLSOptions{}) })
			below := ask(dial(t, s))
			if name == "waits" {
				below.Read(nil)
			}
			peer := tls.Client(below, tlstest.Identity().Client)
			peer.Write([]byte("and back"))
			peer.CloseWrite()
			got, err := io.ReadAll(peer)
			if string(got) != "meanwhile secured and back" || err != nil || below.heard != "go on\n" {
				t.Errorf("%s: got %q, %v, unencrypted %q", name, got, err, below.heard)
			}
			if err := <-lost; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestStartTLSBothEnds: both ends are Conns with reading paused, and more bytes are
// written before than the socket takes.
func TestStartTLSBothEnds(t *testing.T) {
	lost := make(chan error, 2)
	before, after := block(8<<20), block(100_000)
	var got []byte
	l, s := serving(t, loop.Options{}, "unix", abstract(), transport.Options{}, func() *spy {
		return &spy{
			made: func(c *transport.Conn) {
				c.Write(before)
				if c.Unsent() == 0 {
					t.Error("the socket took everything")
				}
				c.PauseReading()
				c.AfterFlush(func(err error) {
					if err != nil {
						t.Error(err)
					}
				})
				if err := c.StartTLS(tlstest.Identity().Server, c.ResumeReading, transport.StartTLSOptions{Server: true}); err != nil {
					t.Error(err)
				}
				c.Write(after)
				c.Close() // after everything is sent
			},
			lost: func(c *transport.Conn, err error) { lost <- err },
		}
	})
	on(t, l, func() {
		transport.Connect(t.Context(), l, "unix", s.Addr().String(), transport.ConnectOptions{Protocol: &spy{
			tb: t,
			data: func(c *transport.Conn, data []byte) {
				if got = append(got, data...); len(got) == len(before) {
					if err := c.StartTLS(tlstest.Identity().Client, func() {}, transport.StartTLSOptions{}); err != nil {
						t.Error(err)
					}
				}
				if len(got) > len(before) && c.TLS() == nil {
					t.Error("not secured")
				}
			},
			lost: func(c *transport.Conn, err error) { lost <- err },
		}, OnError: func(err error) { t.Error(err) }})
	})
	for range 2 {
		if err := <-lost; err != nil {
			t.Error(err)
		}
	}
	if !bytes.Equal(got, append(before, after...)) {
		t.Errorf("%d of %d bytes arrived", len(got), len(before)+len(after))
	}
}

// TestStartTLSFails: the connection is lost once, with the error of the handshake.
func TestStartTLSFails(t *testing.T) {
	lost := make(chan error, 1)
	_, s := serving(t, loop.Options{}, "tcp", "127.0.0.1:0", transport.Options{}, func() *spy {
		return servingStartTLS(t, lost, transport.StartTLSOptions{HandshakeTimeout: 1e6})
	})
	raw := dial(t, s)
	raw.Write([]byte("STARTTLS\n"))
	if err := <-lost; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// TestStartTLSErrors: StartTLS fails or panics where it is not possible.
func TestStartTLSErrors(t *testing.T) {
	file, err := os.Open("tls_start_test.go")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	start := func(c *transport.Conn) error {
		return c.StartTLS(tlstest.Identity().Server, func() {}, transport.StartTLSOptions{Server: true})
	}
	tried := make(chan bool, 1)
	for _, try := range []func(c *transport.Conn){
		func(c *transport.Conn) {
			c.SendFile(file, 0, -1, func(error) { tried <- true })
			if err := start(c); !errors.Is(err, transport.ErrUnsent) {
				t.Errorf("StartTLS after SendFile: %v", err)
			}
		},
		func(c *transport.Conn) {
			c.WriteEOF()
			if err := start(c); !errors.Is(err, net.ErrClosed) {
				t.Errorf("StartTLS after WriteEOF: %v", err)
			}
			tried <- true
		},
		func(c *transport.Conn) {
			config := tlstest.Identity().Client.Clone()
			config.Renegotiation = tls.RenegotiateFreelyAsClient
			if err := c.StartTLS(config, func() {}, transport.StartTLSOptions{}); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("StartTLS with renegotiation: %v", err)
			}
			tried <- true
		},
		func(c *transport.Conn) {
			defer func() {
				if recover() == nil {
					t.Error("a second StartTLS did not panic")
				}
				tried <- true
			}()
			if err := start(c); err != nil {
				t.Error(err)
			}
			start(c)
		},
	} {
		l, s := serving(t, loop.Options{}, "tcp", "127.0.0.1:0", transport.Options{}, func() *spy { return &spy{made: try} })
		peer := dial(t, s)
		<-tried
		peer.Close()
		until.OnLoop(t, l, func() bool { return s.Conns() == 0 })
	}
}

// TestStartTLSSilentPeer: bytes that wait for the handshake do not make the loop spin,
// although the socket is writable.
func TestStartTLSSilentPeer(t *testing.T) {
	onPollers(t, func(t *testing.T, o loop.Options) {
		before := block(8 << 20)
		l, s := serving(t, o, "tcp", "127.0.0.1:0", transport.Options{}, func() *spy {
			return &spy{made: func(c *transport.Conn) {
				c.Write(before)
				c.StartTLS(tlstest.Identity().Server, func() {}, transport.StartTLSOptions{Server: true})
				c.Write([]byte("secret"))
				c.Close()
			}}
		})
		peer := dial(t, s)
		if _, err := io.ReadFull(peer, make([]byte, len(before))); err != nil {
			t.Fatal(err)
		}
		wantIdle(t, l)
		peer.Close()
		until.OnLoop(t, l, func() bool { return s.Conns() == 0 })
	})
}
