package transport_test

import (
	"errors"
	"net"
	"slices"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// TestAfterFlush: callbacks run in order, once, never inside AfterFlush, and with the
// right result: bytes sent before an abort count as sent. A panic in one callback does
// not prevent the next.
func TestAfterFlush(t *testing.T) {
	var called []string
	say := func(name string) func(error) {
		return func(err error) {
			switch {
			case err == nil:
				name += " sent"
			case errors.Is(err, net.ErrClosed):
				name += " dropped"
			}
			called = append(called, name)
		}
	}
	var atLost []string
	lost := make(chan bool)
	_, s := serving(t, loop.Options{OnPanic: func(*loop.PanicError) error { return nil }}, "unix", abstract(), transport.Options{}, func() *spy {
		return &spy{
			made: func(c *transport.Conn) {
				c.AfterFlush(say("nothing"))
				c.Write([]byte("x"))
				c.AfterFlush(say("little"))
				if c.Info().Out != 1 {
					t.Errorf("%+v", c.Info())
				}
				c.Write(make([]byte, 1<<20))
				c.AfterFlush(func(error) { panic("oops") })
				c.AfterFlush(say("much"))
				if len(called) != 0 {
					t.Errorf("callbacks %q ran inside AfterFlush", called)
				}
				c.Abort()
			},
			lost: func(c *transport.Conn, err error) {
				atLost = slices.Clone(called)
				close(lost)
			},
		}
	})
	dial(t, s) // a client that does not read
	<-lost
	if want := []string{"nothing sent", "little sent", "much dropped"}; !slices.Equal(atLost, want) {
		t.Errorf("callbacks before ConnectionLost: %q", atLost)
	}
}

// resettingSender is a kernel in which sending fails.
type resettingSender struct{ kernel.Sockets }

func (resettingSender) Send(int, []byte) (int, error) { return 0, syscall.ECONNRESET }

func (resettingSender) Sendv(int, [][]byte) (int, error) { return -1, syscall.ECONNRESET }

// TestAfterFlushWhenSendingFails: bytes that could not be sent are not reported as sent.
func TestAfterFlushWhenSendingFails(t *testing.T) {
	for name, write := range map[string]func(c *transport.Conn){
		"small":   func(c *transport.Conn) { c.Write([]byte("x")) },
		"closed":  func(c *transport.Conn) { c.Write([]byte("x")); c.Close() },
		"large":   func(c *transport.Conn) { c.Write(make([]byte, 10_000)) },
		"buffers": func(c *transport.Conn) { c.Writev([][]byte{make([]byte, 5000), make([]byte, 5000)}) },
	} {
		t.Run(name, func(t *testing.T) {
			k, err := kernel.Open("")
			if err != nil {
				t.Fatal(err)
			}
			k.Sockets = resettingSender{k.Sockets}
			flushed, lost := make(chan error, 1), make(chan error, 1)
			_, s := serving(t, loop.Internal().WithKernel(loop.Options{}, k), "unix", abstract(), transport.Options{}, func() *spy {
				return &spy{
					made: func(c *transport.Conn) {
						write(c)
						c.AfterFlush(func(err error) { flushed <- err })
					},
					lost: func(c *transport.Conn, err error) { lost <- err },
				}
			})
			dial(t, s)
			if err := <-flushed; err == nil {
				t.Error("AfterFlush reported success")
			}
			if err := <-lost; !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("lost with %v", err)
			}
		})
	}
}
