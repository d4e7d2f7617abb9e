package transport_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// TestAMegabyteThenFIN: every byte comes before the end.
func TestAMegabyteThenFIN(t *testing.T) {
	onEvery(t, func(t *testing.T, o loop.Options) {
		var got bytes.Buffer
		atEOF := -1
		lost := make(chan error, 1)
		_, s := serving(t, o, "tcp", "127.0.0.1:0", transport.Options{}, func() *spy {
			return &spy{
				data: func(c *transport.Conn, data []byte) { got.Write(data) },
				eof: func(c *transport.Conn) bool {
					atEOF = got.Len()
					return false
				},
				lost: func(c *transport.Conn, err error) { lost <- err },
			}
		})
		sent := block(1 << 20)
		c := dial(t, s)
		if _, err := c.Write(sent); err != nil {
			t.Fatal(err)
		}
		c.Close()
		if err := <-lost; err != nil {
			t.Error(err)
		}
		if atEOF != len(sent) || !bytes.Equal(got.Bytes(), sent) {
			t.Errorf("%d of %d bytes came before the end", atEOF, len(sent))
		}
	})
}

// TestLargeWriteThenClose: Close waits until all is sent.
func TestLargeWriteThenClose(t *testing.T) {
	onEvery(t, func(t *testing.T, o loop.Options) {
		sent := block(8 << 20)
		flushed, lost := make(chan error, 1), make(chan error, 1)
		_, s := serving(t, o, "tcp", "127.0.0.1:0", transport.Options{}, func() *spy {
			return &spy{
				made: func(c *transport.Conn) {
					c.Write(sent)
					c.Close()
					c.AfterFlush(func(err error) { flushed <- err })
					if !c.IsClosing() || c.Unsent() == 0 {
						t.Errorf("closing %v with %d bytes to send", c.IsClosing(), c.Unsent())
					}
				},
				lost: func(c *transport.Conn, err error) { lost <- err },
			}
		})
		got, err := io.ReadAll(dial(t, s))
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%d of %d bytes came, %v", len(got), len(sent), err)
		}
		if err := <-flushed; err != nil {
			t.Errorf("flushed: %v", err)
		}
		if err := <-lost; err != nil {
			t.Errorf("lost: %v", err)
		}
	})
}

// TestAbortDoesNotFlush: what waits is dropped, and who asked for its sending is
// told so.
func TestAbortDoesNotFlush(t *testing.T) {
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
		t.Errorf("%d bytes came after an abort", n)
	}
}

// TestWriteAfterClose: an error, and nothing else.
func TestWriteAfterClose(t *testing.T) {
	lost := make(chan bool)
	_, s := serving(t, loop.Options{}, "tcp", "127.0.0.1:0", transport.Options{}, func() *spy {
		return &spy{
			made: func(c *transport.Conn) {
				c.Write([]byte("hello"))
				c.Close()
				refused(t, c)
			},
			lost: func(c *transport.Conn, err error) {
				refused(t, c)
				if c.LocalAddr().String() != ":0" || c.RemoteAddr().String() != ":0" {
					t.Errorf("a lost connection is at %v and %v", c.LocalAddr(), c.RemoteAddr())
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

func refused(t *testing.T, c *transport.Conn) {
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

// TestWriteAfterWriteEOF: the sending side is closed, the receiving one is not.
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

// stingy is a system that takes at most so many bytes at once.
type stingy struct {
	kernel.Sockets
	most  int
	calls *int
}

func (s stingy) Send(fd int, p []byte) (int, error) {
	*s.calls++
	return s.Sockets.Send(fd, p[:min(len(p), s.most)])
}

func (s stingy) Sendv(fd int, bufs [][]byte) (int, error) {
	*s.calls++
	left := s.most
	var some [][]byte
	for _, p := range bufs {
		p = p[:min(len(p), left)]
		left -= len(p)
		some = append(some, p)
	}
	return s.Sockets.Sendv(fd, some)
}

// TestPartialWritevKeepsOrder: whatever part of several buffers the system takes,
// the rest follows in order. Each count of bytes ends a call in another place.
func TestPartialWritevKeepsOrder(t *testing.T) {
	sent := block(20_000)
	for most := 1; most <= len(sent); most += 1 + most/3 {
		k, err := kernel.Open("poll") // which tells again of room that is left
		if err != nil {
			t.Fatal(err)
		}
		calls := 0
		k.Sockets = stingy{k.Sockets, most, &calls}
		l, s := serving(t, loop.Options{Kernel: k}, "unix", abstract(), transport.Options{}, func() *spy {
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
			t.Fatalf("%d bytes at once: %d of %d bytes came, %v", most, len(got), len(sent), err)
		}
		on(t, l, func() {
			if want := len(sent) / most; calls < want {
				t.Errorf("%d bytes at once: only %d calls", most, calls)
			}
		})
	}
}

// TestBytesAndTheEndAtOnce: the end has no edge of its own then.
func TestBytesAndTheEndAtOnce(t *testing.T) {
	onEvery(t, func(t *testing.T, o loop.Options) {
		made, lost := make(chan bool, 1), make(chan error, 1)
		var got []byte
		l, s := serving(t, o, "tcp", "127.0.0.1:0", transport.Options{}, func() *spy {
			return &spy{
				made: func(c *transport.Conn) { made <- true },
				data: func(c *transport.Conn, data []byte) { got = append(got, data...) },
				lost: func(c *transport.Conn, err error) { lost <- err },
			}
		})
		c := dial(t, s)
		<-made
		on(t, l, func() { // both come before the loop looks
			c.Write([]byte("bye"))
			c.Close()
		})
		if err := <-lost; err != nil || string(got) != "bye" {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

// TestAPassedDescriptorHidesNoBytes: a read ends behind the bytes that came with a
// descriptor, although there are more.
func TestAPassedDescriptorHidesNoBytes(t *testing.T) {
	onEvery(t, func(t *testing.T, o loop.Options) {
		var got []byte
		made, lost := make(chan bool, 1), make(chan bool)
		l, s := serving(t, o, "unix", abstract(), transport.Options{}, func() *spy {
			return &spy{
				made: func(c *transport.Conn) { made <- true },
				data: func(c *transport.Conn, data []byte) {
					if got = append(got, data...); len(got) == 3 {
						c.Close()
					}
				},
				lost: func(c *transport.Conn, err error) { close(lost) },
			}
		})
		c := dial(t, s).(*net.UnixConn)
		<-made
		on(t, l, func() { // all three come before the loop looks
			c.Write([]byte("a"))
			if _, _, err := c.WriteMsgUnix([]byte("b"), syscall.UnixRights(0), nil); err != nil {
				t.Error(err)
			}
			c.Write([]byte("c"))
		})
		<-lost
		if string(got) != "abc" {
			t.Errorf("got %q", got)
		}
	})
}
