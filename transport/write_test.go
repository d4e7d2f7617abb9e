package transport_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// TestLargeWriteThenClose: Close waits until everything is sent.
func TestLargeWriteThenClose(t *testing.T) {
	onPollers(t, func(t *testing.T, o loop.Options) {
		sent := block(8 << 20)
		flushed, lost := make(chan error, 1), make(chan error, 1)
		_, s := serving(t, o, "tcp", "127.0.0.1:0", transport.Options{}, func() *spy {
			return &spy{
				made: func(c *transport.Conn) {
					c.Write(sent)
					c.Close()
					c.AfterFlush(func(err error) { flushed <- err })
					if !c.IsClosing() || c.Unsent() == 0 {
						t.Errorf("IsClosing %v with %d unsent bytes", c.IsClosing(), c.Unsent())
					}
				},
				lost: func(c *transport.Conn, err error) { lost <- err },
			}
		})
		got, err := io.ReadAll(dial(t, s))
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%d of %d bytes arrived, %v", len(got), len(sent), err)
		}
		if err := <-flushed; err != nil {
			t.Errorf("flushed: %v", err)
		}
		if err := <-lost; err != nil {
			t.Errorf("lost: %v", err)
		}
	})
}

// TestAbortDropsUnsent: Abort drops unsent bytes, and AfterFlush gets an error.
func TestAbortDropsUnsent(t *testing.T) {
	sent := block(8 << 20)
	flushed, lost := make(chan error, 1), make(chan error, 1)
	_, s := serving(t, loop.Options{}, "tcp", "127.0.0.1:0", transport.Options{}, func() *spy {
		return &spy{
			made: func(c *transport.Conn) {
				c.Write(sent)
				c.AfterFlush(func(err error) { flushed <- err })
				c.Abort()
				c.Abort()
			},
			lost: func(c *transport.Conn, err error) { lost <- err },
		}
	})
	peer := dial(t, s)
	if err := <-flushed; !errors.Is(err, net.ErrClosed) {
		t.Errorf("flushed: %v", err)
	}
	if err := <-lost; err != nil {
		t.Errorf("lost: %v", err)
	}
	if n := drainAll(peer); n >= int64(len(sent)) {
		t.Errorf("%d bytes arrived after Abort", n)
	}
}

// TestWriteAfterClose: writes fail with net.ErrClosed and have no effect.
func TestWriteAfterClose(t *testing.T) {
	lost := make(chan bool)
	_, s := serving(t, loop.Options{}, "tcp", "127.0.0.1:0", transport.Options{}, func() *spy {
		return &spy{
			made: func(c *transport.Conn) {
				c.Write([]byte("hello"))
				c.Close()
				wantRefused(t, c)
			},
			lost: func(c *transport.Conn, err error) {
				wantRefused(t, c)
				if c.LocalAddr().String() != ":0" || c.RemoteAddr().String() != ":0" {
					t.Errorf("addresses of a lost connection: %v and %v", c.LocalAddr(), c.RemoteAddr())
				}
				c.Close()
				c.Abort()
				c.PauseReading()
				c.ResumeReading()
				c.SetIdleTimeout(1)
				c.AfterFlush(func(err error) {
					if !errors.Is(err, net.ErrClosed) {
						t.Errorf("flushed: %v", err)
					}
					close(lost)
				})
			},
		}
	})
	if got, err := io.ReadAll(dial(t, s)); string(got) != "hello" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	<-lost
}

func wantRefused(t *testing.T, c *transport.Conn) {
	t.Helper()
	n, err := c.Write([]byte("x"))
	var op *net.OpError
	if n != 0 || !errors.Is(err, net.ErrClosed) || !errors.As(err, &op) {
		t.Errorf("Write: %d, %v", n, err)
	}
	if n, err := c.Writev([][]byte{{1}, {2}}); n != 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("Writev: %d, %v", n, err)
	}
	if err := c.WriteEOF(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("WriteEOF: %v", err)
	}
}

// TestWriteAfterWriteEOF: the sending side is closed, the receiving side is not.
func TestWriteAfterWriteEOF(t *testing.T) {
	got := make(chan string, 1)
	_, s := serving(t, loop.Options{}, "tcp", "127.0.0.1:0", transport.Options{}, func() *spy {
		return &spy{
			made: func(c *transport.Conn) {
				c.Write([]byte("bye"))
				for range 2 {
					if err := c.WriteEOF(); err != nil {
						t.Error(err)
					}
				}
				if _, err := c.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
					t.Errorf("Write: %v", err)
				}
			},
			data: func(c *transport.Conn, data []byte) {
				if err := c.WriteEOF(); err != nil {
					t.Error(err)
				}
				got <- string(data)
			},
		}
	})
	c := dial(t, s)
	if said, err := io.ReadAll(c); string(said) != "bye" || err != nil {
		t.Errorf("got %q, %v", said, err)
	}
	c.Write([]byte("still here"))
	if said := <-got; said != "still here" {
		t.Errorf("got %q", said)
	}
}

// limitedSender is a kernel that sends only a limited number of bytes at once.
type limitedSender struct {
	kernel.Sockets
	limit int
	calls *int
}

func (s limitedSender) Send(fd int, p []byte) (int, error) {
	*s.calls++
	return s.Sockets.Send(fd, p[:min(len(p), s.limit)])
}

func (s limitedSender) Sendv(fd int, bufs [][]byte) (int, error) {
	*s.calls++
	left := s.limit
	var some [][]byte
	for _, p := range bufs {
		p = p[:min(len(p), left)]
		left -= len(p)
		some = append(some, p)
	}
	return s.Sockets.Sendv(fd, some)
}

// TestPartialWritevKeepsOrder: whatever part of several buffers the system takes, the
// rest follows in order. Each limit ends the calls at different places.
func TestPartialWritevKeepsOrder(t *testing.T) {
	sent, stride := block(20_000), 3
	if testing.Short() {
		stride = 1
	}
	for limit := 1; limit <= len(sent); limit += 1 + limit/stride {
		k, err := kernel.Open("poll") // level-triggered: reports writability again
		if err != nil {
			t.Fatal(err)
		}
		calls := 0
		k.Sockets = limitedSender{k.Sockets, limit, &calls}
		l, s := serving(t, loop.Internal().WithKernel(loop.Options{}, k), "unix", abstract(), transport.Options{}, func() *spy {
			return &spy{made: func(c *transport.Conn) {
				c.Write(sent[:10])
				c.Writev([][]byte{sent[10:11], nil, sent[11:7000], sent[7000:7001], sent[7001:12_000]})
				c.Writev([][]byte{sent[12_000:12_001], sent[12_001:12_003]})
				c.Write(sent[12_003:19_000])
				c.Writev([][]byte{{}, sent[19_000:]})
				c.Close()
			}}
		})
		if got, err := io.ReadAll(dial(t, s)); err != nil || !bytes.Equal(got, sent) {
			t.Fatalf("%d bytes at once: %d of %d bytes arrived, %v", limit, len(got), len(sent), err)
		}
		on(t, l, func() {
			if want := len(sent) / limit; calls < want {
				t.Errorf("%d bytes at once: only %d calls", limit, calls)
			}
		})
	}
}
