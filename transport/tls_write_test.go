package transport_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// TestTLSWaterMarksAndAfterFlush: unsent bytes for a peer that does not read are
// counted, PauseWriting and ResumeWriting are called, and AfterFlush waits.
func TestTLSWaterMarksAndAfterFlush(t *testing.T) {
	onPollers(t, func(t *testing.T, o loop.Options) {
		conn := make(chan *transport.Conn, 1)
		var paused, resumed, flushed bool
		l, s := servingTLS(t, o, func() *spy {
			return &spy{
				made:   func(c *transport.Conn) { conn <- c },
				pause:  func(c *transport.Conn) { paused = true },
				resume: func(c *transport.Conn) { resumed = true },
			}
		})
		peer := dialTLS(t, s)
		c := <-conn
		sent := block(16 << 20)
		on(t, l, func() {
			c.Write(sent)
			if c.Unsent() < 1<<20 || c.Unsent() > len(sent)+1<<17 {
				t.Errorf("%d unsent bytes", c.Unsent())
			}
			c.AfterFlush(func(err error) { flushed = err == nil })
		})
		wantIdle(t, l)
		on(t, l, func() {
			if !paused || resumed || flushed {
				t.Errorf("paused %v, resumed %v, flushed %v", paused, resumed, flushed)
			}
		})
		got := make([]byte, len(sent))
		if _, err := io.ReadFull(peer, got); err != nil || !bytes.Equal(got, sent) {
			t.Fatal("received bytes differ:", err)
		}
		until.OnLoop(t, l, func() bool { return resumed && flushed && c.Unsent() == 0 })
	})
}

// TestTLSAfterFlushOfALostConnection: a record that was never handed to the system is not
// reported as flushed, although all that was written is encrypted.
func TestTLSAfterFlushOfALostConnection(t *testing.T) {
	conn := make(chan *transport.Conn, 1)
	lost := make(chan error, 1)
	l, s := servingTLS(t, loop.Options{}, func() *spy {
		return &spy{
			made: func(c *transport.Conn) { conn <- c },
			lost: func(c *transport.Conn, err error) { lost <- err },
		}
	})
	dialTLS(t, s) // a client that does not read
	c := <-conn
	var called []string
	say := func(name string) func(error) {
		return func(err error) { called = append(called, fmt.Sprint(name, " ", err)) }
	}
	on(t, l, func() {
		c.AfterFlush(say("nothing"))
		for c.Unsent() == 0 {
			c.Write(make([]byte, 16<<10)) // a record
		}
		c.AfterFlush(say("records"))
		l.CallSoon(c.Abort) // after the callbacks of what was flushed
	})
	<-lost
	on(t, l, func() {
		if want := []string{"nothing <nil>", "records " + net.ErrClosed.Error()}; !slices.Equal(called, want) {
			t.Errorf("%q", called)
		}
	})
}

// TestTLSWriteTimeout: the connection of a peer that does not read times out.
func TestTLSWriteTimeout(t *testing.T) {
	lost := make(chan error, 1)
	_, s := servingTLS(t, loop.Options{}, func() *spy {
		return &spy{
			made: func(c *transport.Conn) {
				c.SetWriteTimeout(20 * time.Millisecond)
				c.Write(make([]byte, 16<<20))
				c.Close()
			},
			lost: func(c *transport.Conn, err error) { lost <- err },
		}
	})
	dialTLS(t, s)
	if err := <-lost; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// TestTLSSendFile: files and bytes are sent in order, encrypted.
func TestTLSSendFile(t *testing.T) {
	onPollers(t, func(t *testing.T, o loop.Options) {
		content := block(3 << 20)
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		lost, sent := make(chan error, 1), 0
		_, s := servingTLS(t, o, func() *spy {
			return &spy{
				made: func(c *transport.Conn) {
					done := func(err error) {
						if sent++; err != nil {
							t.Error(err)
						}
					}
					c.Write([]byte("before "))
					c.SendFile(f, 0, -1, done)
					c.Write([]byte(" between "))
					c.SendFile(f, 7, 100, done)
					c.Write(content[:100_000])
					c.Close()
				},
				lost: func(c *transport.Conn, err error) { lost <- err },
			}
		})
		peer := dialTLS(t, s)
		want := "before " + string(content) + " between " + string(content[7:107]) + string(content[:100_000])
		if got, err := io.ReadAll(peer); string(got) != want || err != nil {
			t.Errorf("%d of %d bytes arrived, %v", len(got), len(want), err)
		}
		if err := <-lost; err != nil || sent != 2 {
			t.Errorf("%d files, %v", sent, err)
		}
	})
}

// laterResettingSender is a kernel in which sending fails once reset is set.
type laterResettingSender struct {
	kernel.Sockets
	reset *atomic.Bool
}

func (k laterResettingSender) Send(fd int, p []byte) (int, error) {
	if k.reset.Load() {
		return 0, syscall.ECONNRESET
	}
	return k.Sockets.Send(fd, p)
}

// TestTLSSendFileWhenSendingFails: a record that the system refuses is not reported as
// sent.
func TestTLSSendFileWhenSendingFails(t *testing.T) {
	k, err := kernel.Open("")
	if err != nil {
		t.Fatal(err)
	}
	var reset atomic.Bool
	k.Sockets = laterResettingSender{k.Sockets, &reset}
	f, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	done := make(chan error, 1)
	_, s := servingTLS(t, loop.Internal().WithKernel(loop.Options{}, k), func() *spy {
		return &spy{made: func(c *transport.Conn) {
			reset.Store(true)
			c.SendFile(f, 0, 100, func(err error) { done <- err })
		}}
	})
	dialTLS(t, s)
	if err := <-done; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("done: %v", err)
	}
}

// TestTLSWaterMarksCountRecords: queued records count towards the water marks like bytes
// that are not encrypted yet.
func TestTLSWaterMarksCountRecords(t *testing.T) {
	paused := make(chan int, 1)
	l, s := servingTLS(t, loop.Options{}, func() *spy {
		return &spy{
			made: func(c *transport.Conn) {
				c.SetBuffers(0, 4<<10)
				c.SetWriteLimits(10_000, 1000)
				for range 20 { // until enough are queued; each one is encrypted separately
					if c.Unsent() <= 10_000 {
						c.Write(make([]byte, 60_000))
					}
				}
			},
			pause: func(c *transport.Conn) {
				paused <- c.Unsent()
				c.Abort()
			},
		}
	})
	dialTLS(t, s)
	if n := <-paused; n <= 10_000 {
		t.Errorf("PauseWriting at %d unsent bytes", n)
	}
	until.OnLoop(t, l, func() bool { return s.Conns() == 0 })
}
