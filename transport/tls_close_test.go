package transport_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/internal/tlstest"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// TestTLSHalfClose: after a peer's close_notify it can be written to, and after our own
// the peer can still send.
func TestTLSHalfClose(t *testing.T) {
	onPollers(t, func(t *testing.T, o loop.Options) {
		half, lost := make(chan *transport.Conn, 1), make(chan error, 1)
		var got []byte
		l, s := servingTLS(t, o, func() *spy {
			return &spy{
				data: func(c *transport.Conn, data []byte) { got = append(got, data...) },
				eof: func(c *transport.Conn) bool {
					half <- c
					return true
				},
				lost: func(c *transport.Conn, err error) { lost <- err },
			}
		})
		peer := dialTLS(t, s)
		peer.Write([]byte("all"))
		peer.CloseWrite()
		c := <-half
		wantIdle(t, l)
		sent := block(2 << 20)
		on(t, l, func() {
			if string(got) != "all" {
				t.Errorf("got %q", got)
			}
			c.PauseReading()
			c.ResumeReading()
			c.Write(sent)
			c.WriteEOF()
		})
		if got, err := io.ReadAll(peer); string(got) != string(sent) || err != nil {
			t.Errorf("%d of %d bytes arrived, %v", len(got), len(sent), err)
		}
		wantIdle(t, l)
		on(t, l, func() { c.Close() })
		if err := <-lost; err != nil {
			t.Error(err)
		}
	})
}

// TestTLSWriteEOFThenReceive: a peer that has read EOF can still send.
func TestTLSWriteEOFThenReceive(t *testing.T) {
	lost := make(chan error, 1)
	var got []byte
	_, s := servingTLS(t, loop.Options{}, func() *spy {
		return &spy{
			made: func(c *transport.Conn) {
				c.Write([]byte("that is all"))
				c.WriteEOF()
			},
			data: func(c *transport.Conn, data []byte) { got = append(got, data...) },
			lost: func(c *transport.Conn, err error) { lost <- err },
		}
	})
	peer := dialTLS(t, s)
	if said, err := io.ReadAll(peer); string(said) != "that is all" || err != nil {
		t.Errorf("%q, %v", said, err)
	}
	sent := block(100_000)
	peer.Write(sent)
	peer.Close()
	if err := <-lost; err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// TestTLSTruncated: EOF without close_notify is an error, because an attacker may have
// caused it.
func TestTLSTruncated(t *testing.T) {
	for name, end := range map[string]func(p *tlstest.Peer){
		"between records": func(p *tlstest.Peer) {},
		"in a header":     func(p *tlstest.Peer) { p.Raw.Write([]byte{tlstest.DataRecord, 3}) },
		"in a record":     func(p *tlstest.Peer) { p.Raw.Write([]byte{tlstest.DataRecord, 3, 3, 0, 40, 1}) },
		"in an alert":     func(p *tlstest.Peer) { p.Raw.Write([]byte{tlstest.AlertRecord, 3, 3, 0, 40, 1}) },
	} {
		t.Run(name, func(t *testing.T) {
			lost := make(chan error, 1)
			var got []byte
			_, s := servingTLS(t, loop.Options{}, func() *spy {
				return &spy{
					data: func(c *transport.Conn, data []byte) { got = append(got, data...) },
					eof:  func(c *transport.Conn) bool { t.Error("EOFReceived"); return false },
					lost: func(c *transport.Conn, err error) { lost <- err },
				}
			})
			peer := dialTLS(t, s)
			peer.Write([]byte("some"))
			end(peer)
			peer.Raw.CloseWrite()
			if err := <-lost; !errors.Is(err, io.ErrUnexpectedEOF) || string(got) != "some" {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// TestTLSReset: a reset is reported as on a plain connection.
func TestTLSReset(t *testing.T) {
	lost := make(chan error, 1)
	_, s := servingTLS(t, loop.Options{}, func() *spy { return echoSpy(lost) })
	peer := dialTLS(t, s)
	reset(t, peer.Raw.TCPConn)
	var op *net.OpError
	if err := <-lost; !errors.As(err, &op) || !strings.Contains(err.Error(), "reset") {
		t.Errorf("%v", err)
	}
}

// TestTLSAbort: Abort drops unsent bytes and sends no close_notify.
func TestTLSAbort(t *testing.T) {
	_, s := servingTLS(t, loop.Options{}, func() *spy {
		return &spy{data: func(c *transport.Conn, data []byte) { c.Abort() }}
	})
	peer := dialTLS(t, s)
	peer.Write([]byte("go"))
	if _, err := io.ReadAll(peer); err != nil && !strings.Contains(err.Error(), "reset") || peer.Raw.EndsWithAlert() {
		t.Errorf("%v", err)
	}
}

// TestTLSEOFWhilePaused: EOF waits until reading is resumed, even if it arrived in one
// packet with the last data.
func TestTLSEOFWhilePaused(t *testing.T) {
	conn, lost := make(chan *transport.Conn, 1), make(chan error, 1)
	resumed := false
	l, s := servingTLS(t, loop.Options{}, func() *spy {
		return &spy{
			data: func(c *transport.Conn, data []byte) {
				c.PauseReading()
				conn <- c
			},
			eof: func(c *transport.Conn) bool {
				if !resumed {
					t.Error("EOFReceived while reading is paused")
				}
				return false
			},
			lost: func(c *transport.Conn, err error) { lost <- err },
		}
	})
	peer := dialTLS(t, s)
	f := peer.Forge13()
	peer.Raw.Write(append(f.Record(tlstest.DataRecord, 'x'), f.Record(tlstest.AlertRecord, 1, 0)...))
	c := <-conn
	on(t, l, func() {
		resumed = true
		c.ResumeReading()
	})
	if err := <-lost; err != nil {
		t.Error(err)
	}
}

// TestTLSDataAfterCloseNotify: data after close_notify is ignored and does not make the
// loop spin. A write notices that the peer is gone.
func TestTLSDataAfterCloseNotify(t *testing.T) {
	onPollers(t, func(t *testing.T, o loop.Options) {
		half, lost := make(chan *transport.Conn, 10), make(chan error, 1)
		l, s := servingTLS(t, o, func() *spy {
			return &spy{
				eof: func(c *transport.Conn) bool {
					half <- c
					return true
				},
				lost: func(c *transport.Conn, err error) { lost <- err },
			}
		})
		peer := dialTLS(t, s)
		peer.CloseWrite()
		c := <-half
		peer.Raw.Write([]byte("noise"))
		wantIdle(t, l)
		peer.Raw.CloseWrite()
		wantIdle(t, l)
		if len(half) != 0 {
			t.Error("EOFReceived was called again")
		}
		reset(t, peer.Raw.TCPConn)
		until.OnLoop(t, l, func() bool {
			c.Write([]byte("hello"))
			return c.IsClosing()
		})
		if err := <-lost; err == nil {
			t.Error("lost without an error")
		}
	})
}

// TestTLSSendFileThatFails: a peer can tell a file that was cut from one that ended, by the
// missing close_notify, even if the connection was to be closed after the file.
func TestTLSSendFileThatFails(t *testing.T) {
	for name, then := range map[string]func(c *transport.Conn){
		"Close":    func(c *transport.Conn) { c.Close() },
		"WriteEOF": func(c *transport.Conn) { c.WriteEOF() },
	} {
		for _, fault := range []string{"shorter", "closed", "too short"} {
			t.Run(name+", "+fault, func(t *testing.T) {
				f := tempFile(t, make([]byte, 1<<20))
				failed := make(chan error, 1)
				_, s := servingTLS(t, loop.Options{}, func() *spy {
					return &spy{data: func(c *transport.Conn, data []byte) {
						c.Write([]byte("begin"))
						if fault == "too short" {
							f.Truncate(1 << 10)
						}
						c.SendFile(f, 0, 1<<20, func(err error) { failed <- err })
						if fault == "closed" {
							f.Close()
						}
						f.Truncate(1 << 10)
						then(c)
					}}
				})
				peer := dialTLS(t, s)
				peer.Write([]byte("go"))
				if got, _ := io.ReadAll(peer); peer.Raw.EndsWithAlert() {
					t.Errorf("the peer got %d bytes, which look complete", len(got))
				}
				if err := <-failed; err == nil {
					t.Error("SendFile succeeded")
				}
			})
		}
	}
}
