package stream_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/stream"
)

// serialKernel detects concurrent calls. Its counters are plain, so that the race
// detector checks them, too.
type serialKernel struct {
	kernel.Sockets
	inside, calls, clashes int
}

func (s *serialKernel) in() func() {
	if s.inside++; s.inside > 1 {
		s.clashes++
	}
	s.calls++
	return func() { s.inside-- }
}

func (s *serialKernel) Recv(fd int, p []byte) (int, error) {
	defer s.in()()
	return s.Sockets.Recv(fd, p)
}
func (s *serialKernel) Send(fd int, p []byte) (int, error) {
	defer s.in()()
	return s.Sockets.Send(fd, p)
}
func (s *serialKernel) CloseFD(fd int) error       { defer s.in()(); return s.Sockets.CloseFD(fd) }
func (s *serialKernel) Accept(fd int) (int, error) { defer s.in()(); return s.Sockets.Accept(fd) }

// TestGoroutinesAndTasksNeverInParallel: both read and write the same connections,
// move their deadlines, and close them. Every byte written is read.
func TestGoroutinesAndTasksNeverInParallel(t *testing.T) {
	for _, backend := range short.Backends() {
		t.Run(backend, func(t *testing.T) {
			k, err := kernel.Open(backend)
			check(t, err)
			s := &serialKernel{Sockets: k.Sockets}
			k.Sockets = s
			run(t, spindle.Options{Loop: loop.Internal().WithKernel(loop.Options{}, k)}, func(ctx context.Context) error {
				a, b := pair(t, ctx, "unix")
				const each, rounds = 4, 50
				read := make(chan int, 2*each)
				write := func() {
					for range rounds {
						if n, err := a.Write(pattern(500)); n != 500 || err != nil {
							t.Errorf("%d, %v", n, err)
						}
						a.SetWriteDeadline(time.Time{})
					}
				}
				drain := func() {
					sum := 0
					for p := make([]byte, 700); ; {
						n, err := b.Read(p)
						sum += n
						b.SetReadDeadline(time.Now().Add(time.Hour))
						if err != nil {
							want(t, "Read", err, io.EOF)
							break
						}
					}
					read <- sum
				}
				var writers, readers sync.WaitGroup
				for range each {
					writers.Go(write)
					readers.Go(drain)
				}
				together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
					for range each {
						n.Go(func(context.Context) error { drain(); return nil })
					}
					together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
						for range each {
							n.Go(func(context.Context) error { write(); return nil })
						}
					})
					spindle.Blocking(ctx, func() (int, error) { writers.Wait(); return 0, a.Close() })
				})
				spindle.Blocking(ctx, func() (int, error) { readers.Wait(); return 0, b.Close() })
				sum := 0
				for range 2 * each {
					sum += <-read
				}
				if sum != 2*each*rounds*500 {
					t.Errorf("%d bytes", sum)
				}
				if s.clashes > 0 || s.calls == 0 {
					t.Errorf("%d calls, %d at once", s.calls, s.clashes)
				}
				return nil
			})
		})
	}
}

// TestGoroutineCallsAfterTheRun checks that calls fail and do not hang, whether the
// loop is closed or may run again.
func TestGoroutineCallsAfterTheRun(t *testing.T) {
	l, err := loop.New(loop.Options{})
	check(t, err)
	var c *stream.Conn
	var ln *stream.Listener
	var waits sync.WaitGroup
	check(t, spindle.Options{On: l}.Run(t.Context(), func(ctx context.Context) error {
		c, _ = pair(t, ctx, "tcp")
		ln = listen(t, ctx, "tcp")
		for what, call := range map[string]func() error{
			"waiting Read":   func() error { _, err := c.Read(make([]byte, 1)); return err },
			"waiting Write":  func() error { _, err := c.Write(pattern(32 << 20)); return err },
			"waiting Accept": func() error { _, err := ln.Accept(); return err },
		} {
			waits.Go(func() { want(t, what, call(), net.ErrClosed) })
		}
		waiting(t, ctx, 1, "Conn.Read")
		waiting(t, ctx, 1, "Conn.Write")
		waiting(t, ctx, 1, "Listener.Accept")
		return nil
	}))
	waits.Wait()
	calls := func(when string) {
		t.Helper()
		_, err := c.Read(make([]byte, 1))
		want(t, when+": Read", err, net.ErrClosed)
		_, err = c.Write([]byte("x"))
		want(t, when+": Write", err, net.ErrClosed)
		want(t, when+": CloseWrite", c.CloseWrite(), net.ErrClosed)
		_, err = ln.Accept()
		want(t, when+": Accept", err, net.ErrClosed)
		c.LocalAddr()
		c.SetDeadline(time.Now().Add(time.Hour))
	}
	calls("between runs")
	for range 2 { // the loop does not run, and still no goroutine may touch it
		waits.Go(func() {
			c.SetDeadline(time.Now().Add(time.Hour))
			ln.Close()
		})
	}
	waits.Wait()
	check(t, spindle.Options{On: l}.Run(t.Context(), func(ctx context.Context) error {
		_, err := spindle.Blocking(ctx, func() (int, error) {
			for range 200 {
				calls("while another runs")
			}
			return 0, nil
		})
		return err
	}))
	calls("after another run")
	check(t, l.Close())
	calls("after the loop")
	want(t, "SetDeadline", c.SetDeadline(time.Time{}), net.ErrClosed)
	want(t, "Close", c.Close(), net.ErrClosed)
	want(t, "Close of the listener", ln.Close(), net.ErrClosed)
}

// TestRunEndsDuringGoroutineCalls checks that a run does not fail when goroutines
// make calls while it ends, and that no two goroutines touch the loop.
func TestRunEndsDuringGoroutineCalls(t *testing.T) {
	rounds := 30
	if testing.Short() {
		rounds = 5
	}
	for range rounds {
		var calls sync.WaitGroup
		stop := make(chan struct{})
		run(t, spindle.Options{}, func(ctx context.Context) error {
			a, b := pair(t, ctx, "unix")
			forever := func(call func()) {
				calls.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
							call()
						}
					}
				})
			}
			forever(func() { a.Write([]byte("x")) })
			forever(func() { b.Read(make([]byte, 10)) })
			forever(func() {
				a.SetDeadline(time.Time{})
				b.CloseWrite() // waits: calls that do not would fill the loop's inbox without limit
			})
			forever(func() { c, _ := pairOrNot(ctx); c.Close() })
			_, err := b.Read(make([]byte, 1))
			return err
		})
		close(stop)
		calls.Wait()
	}
}

// pairOrNot listens and dials from a goroutine.
func pairOrNot(ctx context.Context) (net.Conn, error) {
	idle, other := net.Pipe()
	other.Close()
	ln, err := stream.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return idle, err
	}
	defer ln.Close()
	c, err := stream.Dialer{}.DialContext(ctx, "tcp", ln.Addr().String())
	if err != nil {
		return idle, err
	}
	return c, nil
}

// TestMisusePanics checks the panic messages.
func TestMisusePanics(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		a, _ := pair(t, ctx, "tcp")
		ln := listen(t, ctx, "tcp")
		panics := func(what, text string, call func()) {
			t.Helper()
			defer func() {
				if v := recover(); v != text {
					t.Errorf("%s: panic %v, want %q", what, v, text)
				}
			}()
			call()
		}
		callback := func(name string) string {
			return "stream: " + name + " called from a callback of a loop; start a task"
		}
		var called spindle.Lot
		spindle.LoopOf(ctx).CallSoon(func() {
			panics("Read", callback("Conn.Read"), func() { a.Read(make([]byte, 1)) })
			panics("Write", callback("Conn.Write"), func() { a.Write([]byte("x")) })
			panics("Accept", callback("Listener.Accept"), func() { ln.Accept() })
			panics("Dial", callback("Dial"), func() { stream.Dial(ctx, "tcp", "127.0.0.1:1") })
			panics("Listen", callback("Listen"), func() { stream.Listen(ctx, "tcp", "127.0.0.1:0") })
			called.Wake(1)
		})
		check(t, called.Wait(ctx, "callback"))
		done := make(chan struct{})
		go func() {
			defer close(done)
			panics("ReadBorrow", "stream: ReadBorrow called from a goroutine that is not a task of the connection's loop", func() { a.ReadBorrow() })
		}()
		<-done
		panics("Listen", "spindle: stream.Listen with a context that does not come from a task;"+
			" pass on the ctx of the task that calls it, or call it in spindle.Run; an HTTP handler is a task only if it is marked with web.Inline and served by web.Server", func() { stream.Listen(context.Background(), "tcp", "x:1") })
	})
}

// TestGoroutineGetsTheCallsError checks that a goroutine gets the error of the task
// that makes its call.
func TestGoroutineGetsTheCallsError(t *testing.T) {
	onReal(t, func(t *testing.T, ctx context.Context) {
		a, b := pair(t, ctx, "tcp")
		check(t, a.SetReadDeadline(time.Unix(1, 0)))
		_, err := spindle.Blocking(ctx, func() (int, error) { return a.Read(make([]byte, 1)) })
		var op *net.OpError
		if !errors.As(err, &op) || !op.Timeout() || op.Op != "read" {
			t.Errorf("%v", err)
		}
		b.Close()
		check(t, a.SetReadDeadline(time.Time{}))
		_, err = spindle.Blocking(ctx, func() (int, error) { return a.Read(make([]byte, 1)) })
		if err != io.EOF {
			t.Errorf("%v", err)
		}
	})
}

// TestOpenFromGoroutines calls every constructor from a goroutine with a task's
// context, during the run and after it.
func TestOpenFromGoroutines(t *testing.T) {
	ways := map[string]func(ctx context.Context) (interface{ Close() error }, error){
		"Listen": func(ctx context.Context) (interface{ Close() error }, error) {
			return stream.Listen(ctx, "tcp", "127.0.0.1:0")
		},
		"ListenPacket": func(ctx context.Context) (interface{ Close() error }, error) {
			return stream.ListenPacket(ctx, "udp", "127.0.0.1:0")
		},
		"DialPacket": func(ctx context.Context) (interface{ Close() error }, error) {
			return stream.DialPacket(ctx, "udp", "localhost:9")
		},
	}
	var ctx context.Context
	run(t, spindle.Options{}, func(inner context.Context) error {
		ctx = inner
		ln := listen(t, ctx, "tcp")
		ways["Dial"] = func(ctx context.Context) (interface{ Close() error }, error) {
			return stream.Dial(ctx, "tcp", ln.Addr().String())
		}
		for name, open := range ways {
			c, err := spindle.Blocking(ctx, func() (interface{ Close() error }, error) { return open(ctx) })
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			check(t, c.Close())
		}
		return nil
	})
	for name, open := range ways {
		_, err := open(ctx)
		want(t, name+" after the run", err, net.ErrClosed)
	}
}
