package transport_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// TestIdleTimeout: silence in both directions ends a connection, and neither what
// is received nor what is sent is silence; the time may be moved while it runs.
func TestIdleTimeout(t *testing.T) {
	sec := time.Second
	for _, tc := range []struct {
		name string
		at   map[time.Duration]string // what happens when
		ends time.Duration
	}{
		{"silence", nil, 10 * sec},
		{"received", map[time.Duration]string{4 * sec: "peer writes", 9 * sec: "peer writes"}, 19 * sec},
		{"sent", map[time.Duration]string{8 * sec: "write"}, 18 * sec},
		{"sent much", map[time.Duration]string{8 * sec: "write much"}, 18 * sec},
		{"longer", map[time.Duration]string{5 * sec: "20s"}, 25 * sec},
		{"shorter", map[time.Duration]string{5 * sec: "1s"}, 6 * sec},
		{"never, then again", map[time.Duration]string{5 * sec: "0s", 100 * sec: "3s"}, 103 * sec},
		{"paused", map[time.Duration]string{1 * sec: "pause", 2 * sec: "peer writes"}, 10 * sec},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l, d, s := dialing(t)
			var server, client *transport.Conn
			var why error
			var ended time.Duration
			s.Close()
			s, err := transport.Listen(l, "unix", abstract(), transport.Options{Protocol: func() transport.Protocol {
				return &spy{
					tb: t,
					made: func(c *transport.Conn) {
						server = c
						c.SetIdleTimeout(10 * sec)
						for at, what := range tc.at {
							l.CallLater(at, func() {
								switch what {
								case "peer writes":
									client.Write([]byte("x"))
								case "write":
									c.Write([]byte("x"))
								case "write much":
									c.Write(make([]byte, 5000))
								case "pause":
									c.PauseReading()
								default:
									idle, _ := time.ParseDuration(what)
									c.SetIdleTimeout(idle)
								}
							})
						}
					},
					lost: func(c *transport.Conn, err error) { ended, why = d.now, err },
				}
			}})
			if err != nil {
				t.Fatal(err)
			}
			p := &spy{tb: t, made: func(c *transport.Conn) { client = c }, lost: func(*transport.Conn, error) { l.CallLater(1, l.Stop) }}
			transport.Connect(t.Context(), l, "unix", s.Addr().String(), p, transport.ConnectOptions{}, func(err error) { t.Error(err) })
			if err := l.Run(context.Background()); err != nil {
				t.Fatal(err)
			}
			s.Close()
			var op *net.OpError
			if ended != tc.ends || !errors.Is(why, os.ErrDeadlineExceeded) || !errors.As(why, &op) || !op.Timeout() {
				t.Errorf("ended at %v with %v", ended, why)
			}
			if server.Info().Unsent != 0 {
				t.Error("a lost connection keeps bytes")
			}
		})
	}
}

// TestPausedReading: nothing comes while reading is paused, also not what the
// protocol's own buffer would take; all of it comes then, and the end too.
func TestPausedReading(t *testing.T) {
	onEvery(t, func(t *testing.T, o loop.Options) {
		var got []byte
		lost, conn := make(chan error, 1), make(chan *transport.Conn, 1)
		l, s := serving(t, o, "tcp", "127.0.0.1:0", transport.Options{}, func() *spy {
			return &spy{
				made: func(c *transport.Conn) {
					c.PauseReading()
					conn <- c
				},
				data: func(c *transport.Conn, data []byte) {
					if !c.Info().Reading {
						t.Error("data while paused")
					}
					got = append(got, data...)
					c.PauseReading()
					c.PauseReading()
					c.Loop().CallLater(1e5, c.ResumeReading)
				},
				lost: func(c *transport.Conn, err error) { lost <- err },
			}
		})
		peer, c := dial(t, s), <-conn
		sent := block(300_000)
		peer.Write(sent)
		peer.Close()
		quiet(t, l)
		on(t, l, func() {
			if len(got) != 0 {
				t.Error("data while paused")
			}
			for range 3 {
				c.ResumeReading()
				c.PauseReading()
			}
			c.ResumeReading()
			c.ResumeReading()
		})
		if err := <-lost; err != nil || string(got) != string(sent) {
			t.Errorf("%d of %d bytes, %v", len(got), len(sent), err)
		}
	})
}

// TestHalfOpenPeer: a peer that has ended its side can be written to for as long as
// the protocol likes, and the loop sleeps meanwhile.
func TestHalfOpenPeer(t *testing.T) {
	onEvery(t, func(t *testing.T, o loop.Options) {
		for _, network := range []string{"tcp", "unix"} {
			address := "127.0.0.1:0"
			if network == "unix" {
				address = abstract()
			}
			half := make(chan *transport.Conn, 1)
			l, s := serving(t, o, network, address, transport.Options{}, func() *spy {
				return &spy{eof: func(c *transport.Conn) bool {
					half <- c
					return true
				}}
			})
			peer := dial(t, s)
			peer.(interface{ CloseWrite() error }).CloseWrite()
			c := <-half
			quiet(t, l)
			sent := block(2 << 20)
			on(t, l, func() {
				c.PauseReading()
				c.ResumeReading()
				c.Write(sent)
			})
			quiet(t, l)
			on(t, l, func() { c.AfterFlush(func(error) { c.Close() }) })
			if got, err := io.ReadAll(peer); string(got) != string(sent) || err != nil {
				t.Errorf("%d of %d bytes, %v", len(got), len(sent), err)
			}
			until(t, l, func() bool { return s.Conns() == 0 })
		}
	})
}

// TestForeignGoroutine: every method of a connection is for its loop, and says so.
func TestForeignGoroutine(t *testing.T) {
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
		"Server.Close":   func() { s.Close() },
		"Server.Conns":   func() { s.Conns() },
		"Drain":          func() { s.Drain(func() {}) },
		"Local": func() {
			transport.Listen(c.Loop(), "tcp", ":0", transport.Options{Protocol: func() transport.Protocol { return nil }})
		},
	} {
		func() {
			defer func() {
				said, _ := recover().(string)
				if !strings.Contains(said, name) && !strings.Contains(said, "Close") || !strings.Contains(said, "Post") {
					t.Errorf("%s says %q", name, said)
				}
			}()
			call()
		}()
	}
}
