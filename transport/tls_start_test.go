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
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// upgrader is a server that begins TLS when it is told to, in the middle.
func upgrader(t *testing.T, lost chan error, o transport.StartTLSOptions) *spy {
	clear := true
	return &spy{
		data: func(c *transport.Conn, data []byte) {
			if !clear {
				c.Write(data)
				return
			}
			line, rest, _ := bytes.Cut(data, []byte("\n"))
			if string(line) != "STARTTLS" {
				t.Errorf("in the clear: %q", data)
			}
			clear = false
			o.Ahead = rest
			c.Write([]byte("go on\n"))
			if err := c.StartTLSServer(tlstest.Identity().Server, o, func() { c.Write([]byte("secured ")) }); err != nil {
				t.Error(err)
			}
			if c.TLS() != nil {
				t.Error("a state before the handshake is over")
			}
			c.Write([]byte("meanwhile "))
		},
		lost: func(c *transport.Conn, err error) { lost <- err },
	}
}

// clearly is the client's end of the clear conversation below crypto/tls, in one
// packet with the handshake.
type clearly struct {
	net.Conn
	say, heard string
}

func (c *clearly) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(append([]byte(c.say), p...))
	n -= len(c.say)
	c.say = ""
	return n, err
}

func (c *clearly) Read(p []byte) (int, error) {
	if c.heard == "" {
		answer := make([]byte, len("go on\n"))
		if _, err := io.ReadFull(c.Conn, answer); err != nil {
			return 0, err
		}
		c.heard = string(answer)
	}
	return c.Conn.Read(p)
}

// TestStartTLS: what was written before goes out in the clear, and what is written
// meanwhile waits, in its order; a peer need not wait for the answer.
func TestStartTLS(t *testing.T) {
	onEvery(t, func(t *testing.T, o loop.Options) {
		for name, ask := range map[string]func(raw net.Conn) *clearly{
			"waits": func(raw net.Conn) *clearly {
				raw.Write([]byte("STARTTLS\n"))
				return &clearly{Conn: raw}
			},
			"does not wait": func(raw net.Conn) *clearly { return &clearly{Conn: raw, say: "STARTTLS\n"} },
		} {
			lost := make(chan error, 1)
			_, s := serving(t, o, "tcp", "127.0.0.1:0", transport.Options{}, func() *spy { return upgrader(t, lost, transport.StartTLSOptions{}) })
			below := ask(dial(t, s))
			if name == "waits" {
				below.Read(nil)
			}
			peer := tls.Client(below, tlstest.Identity().Client)
			peer.Write([]byte("and back"))
			peer.CloseWrite()
			got, err := io.ReadAll(peer)
			if string(got) != "meanwhile secured and back" || err != nil || below.heard != "go on\n" {
				t.Errorf("%s: %q, %v, in the clear %q", name, got, err, below.heard)
			}
			if err := <-lost; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestStartTLSBothEnds, with more written before than there is room for, and both
// paused meanwhile.
func TestStartTLSBothEnds(t *testing.T) {
	lost := make(chan error, 2)
	before, after := block(8<<20), block(100_000)
	var got []byte
	l, s := serving(t, loop.Options{}, "unix", abstract(), transport.Options{}, func() *spy {
		return &spy{
			made: func(c *transport.Conn) {
				c.Write(before)
				if c.Unsent() == 0 {
					t.Error("all of it found room")
				}
				c.PauseReading()
				c.AfterFlush(func(err error) {
					if err != nil {
						t.Error(err)
					}
				})
				if err := c.StartTLSServer(tlstest.Identity().Server, transport.StartTLSOptions{}, c.ResumeReading); err != nil {
					t.Error(err)
				}
				c.Write(after)
				c.Close() // when all is sent
			},
			lost: func(c *transport.Conn, err error) { lost <- err },
		}
	})
	on(t, l, func() {
		transport.Connect(t.Context(), l, "unix", s.Addr().String(), &spy{
			tb: t,
			data: func(c *transport.Conn, data []byte) {
				if got = append(got, data...); len(got) == len(before) {
					if err := c.StartTLSClient(tlstest.Identity().Client, transport.StartTLSOptions{}, func() {}); err != nil {
						t.Error(err)
					}
				}
				if len(got) > len(before) && c.TLS() == nil {
					t.Error("not secured")
				}
			},
			lost: func(c *transport.Conn, err error) { lost <- err },
		}, transport.ConnectOptions{}, func(err error) { t.Error(err) })
	})
	for range 2 {
		if err := <-lost; err != nil {
			t.Error(err)
		}
	}
	if !bytes.Equal(got, append(before, after...)) {
		t.Errorf("%d of %d bytes", len(got), len(before)+len(after))
	}
}

// TestStartTLSFails: the connection is lost with the reason, once.
func TestStartTLSFails(t *testing.T) {
	lost := make(chan error, 1)
	_, s := serving(t, loop.Options{}, "tcp", "127.0.0.1:0", transport.Options{}, func() *spy {
		return upgrader(t, lost, transport.StartTLSOptions{HandshakeTimeout: 1e6})
	})
	raw := dial(t, s)
	raw.Write([]byte("STARTTLS\n"))
	if err := <-lost; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// TestStartTLSIsRefused where it cannot be.
func TestStartTLSIsRefused(t *testing.T) {
	file, err := os.Open("tls_start_test.go")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	start := func(c *transport.Conn) error {
		return c.StartTLSServer(tlstest.Identity().Server, transport.StartTLSOptions{}, func() {})
	}
	tried := make(chan bool, 1)
	for _, try := range []func(c *transport.Conn){
		func(c *transport.Conn) {
			c.SendFile(file, 0, -1, func(error) { tried <- true })
			if err := start(c); !errors.Is(err, transport.ErrUnsent) {
				t.Errorf("behind a file: %v", err)
			}
		},
		func(c *transport.Conn) {
			c.WriteEOF()
			if err := start(c); !errors.Is(err, net.ErrClosed) {
				t.Errorf("behind the end: %v", err)
			}
			tried <- true
		},
		func(c *transport.Conn) {
			config := tlstest.Identity().Client.Clone()
			config.Renegotiation = tls.RenegotiateFreelyAsClient
			if err := c.StartTLSClient(config, transport.StartTLSOptions{}, func() {}); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("with renegotiation: %v", err)
			}
			tried <- true
		},
		func(c *transport.Conn) {
			defer func() {
				if recover() == nil {
					t.Error("twice")
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
		until(t, l, func() bool { return s.Conns() == 0 })
	}
}
