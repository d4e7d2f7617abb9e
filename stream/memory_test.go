package stream_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/stream"
)

const clientsOf = "SPINDLE_TEST_CLIENTS"

// runClients runs many clients in a process of their own, so that their memory is not the
// server's. It reads commands: a number opens that many connections, and every second
// one sends a byte and waits for its echo; "echo" makes all do so.
func runClients(address string) {
	to := netip.MustParseAddrPort(address)
	var conns []int
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		n, _ := strconv.Atoi(orders.Text())
		for range n {
			fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
			if err == nil {
				err = syscall.Connect(fd, &syscall.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())})
			}
			if err != nil {
				fmt.Println("after", len(conns), err)
				os.Exit(1)
			}
			conns = append(conns, fd)
			if i := len(conns) - 1; i%2 == 1 { // some clients speak first
				send(conns, i)
				awaitEcho(conns, i)
			}
		}
		if orders.Text() == "echo" {
			for i := range conns {
				send(conns, i)
			}
			for i := range conns {
				awaitEcho(conns, i)
			}
		}
		fmt.Println("done")
	}
}

// send sends a byte on a connection.
func send(conns []int, i int) { syscall.Write(conns[i], []byte{byte(i)}) }

// awaitEcho waits for the echo of send.
func awaitEcho(conns []int, i int) {
	p := make([]byte, 2)
	if n, err := syscall.Read(conns[i], p); n != 1 || p[0] != byte(i) {
		fmt.Println("connection", i, n, err)
		os.Exit(1)
	}
}

// order starts the process of runClients and returns the function that sends it commands.
func order(t *testing.T, address string) func(ctx context.Context, what string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), clientsOf+"="+address)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	answers := bufio.NewScanner(out)
	return func(ctx context.Context, what string) {
		t.Helper()
		answer, err := spindle.Blocking(ctx, func() (string, error) {
			fmt.Fprintln(in, what)
			answers.Scan()
			return answers.Text(), answers.Err()
		})
		if answer != "done" || err != nil {
			t.Fatalf("the clients: %q, %v", answer, err)
		}
	}
}

// TestManyConnections opens many connections on one loop and uses each. It measures
// an idle connection's memory before and after its first use: its heap, and a stack
// that has never grown.
func TestManyConnections(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short: many connections")
	}
	// In portable mode a connection needs 16 bytes more of heap. Stacks are counted in large
	// pieces, so the difference between two counts is not exact.
	const mostHeap, mostStack = 1140, 2048 + 64
	check(t, spindle.Run(t.Context(), func(ctx context.Context) error {
		ln := listen(t, ctx, "tcp")
		waits := 0
		spindle.RootNursery(ctx).Go(func(ctx context.Context) error {
			return stream.Serve(ctx, ln, func(ctx context.Context, c *stream.Conn) error {
				var locals [48]byte // a handler has some variables
				for {
					use(&locals)
					waits++
					p, err := c.ReadBorrow()
					waits--
					if err != nil {
						return err
					}
					if _, err := c.Write(p); err != nil {
						return err
					}
				}
			})
		})
		do := order(t, ln.Addr().String())
		idle := func(n int) memory {
			until.InTask(ctx, t, func() bool { return waits == n })
			return inUse(t, ctx)
		}
		for range 10_000 { // after a peak the loop keeps some memory for the next one
			spindle.LoopOf(ctx).CallSoon(func() {})
		}
		conns := max(2000, short.Seeds(manyConns))
		first := conns / 3
		do(ctx, strconv.Itoa(first))
		before := idle(first)
		grown := func(when string) {
			t.Helper()
			after := idle(conns)
			heap, stack := (after.heap-before.heap)/int64(conns-first), (after.stack-before.stack)/int64(conns-first)
			t.Logf("%s: %d bytes of heap and %d of stack", when, heap, stack)
			if !underRace && (heap > mostHeap || stack > mostStack) {
				t.Errorf("more than %v of heap, or than %v of stack", mostHeap, mostStack)
			}
		}
		do(ctx, strconv.Itoa(conns-first))
		grown("a connection that was never used")
		do(ctx, "echo")
		grown("one that was")
		return nil
	}))
}

// use keeps its argument on the stack.
//
//go:noinline
func use(*[48]byte) {}

// memory is the memory in use after a collection.
type memory struct{ heap, stack int64 }

func inUse(t *testing.T, ctx context.Context) memory {
	t.Helper()
	check(t, spindle.Sleep(ctx, time.Millisecond)) // the loop waits, and frees what a peak used
	m, err := spindle.Blocking(ctx, func() (m runtime.MemStats, err error) {
		runtime.GC()
		runtime.GC() // frees what finalizers and pools kept through the first
		runtime.ReadMemStats(&m)
		return m, nil
	})
	check(t, err)
	return memory{int64(m.HeapAlloc), int64(m.StackInuse)}
}

// TestShortConnections checks that closed connections leave nothing behind; run
// counts descriptors.
func TestShortConnections(t *testing.T) {
	run(t, spindle.Options{}, func(ctx context.Context) error {
		conns := short.Seeds(shortConns)
		remaining, answered := conns, 0
		err := served(t, ctx, stream.ServeConfig{}, echo, func(ctx context.Context, ln *stream.Listener, _ *spindle.Scope) {
			together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
				for range 50 {
					n.Go(func(ctx context.Context) error {
						p := make([]byte, 5)
						for remaining > 0 {
							remaining--
							c, err := stream.Dial(ctx, "tcp", ln.Addr().String())
							if err != nil {
								return err
							}
							c.Write([]byte("hello"))
							if _, err := io.ReadFull(c, p); err != nil {
								return err
							}
							answered++
							c.SetLinger(0) // avoids running out of ports
							c.Close()
						}
						return nil
					})
				}
			})
		})
		want(t, "Serve", err, context.Canceled)
		if answered != conns {
			t.Errorf("%d were answered", answered)
		}
		if s := spindle.LoopOf(ctx).Stats(); s.FDs != 0 || s.Timers != 0 {
			t.Errorf("loop is not idle: %+v", s)
		}
		return nil
	})
}

// TestIdleCopyNeedsNoBuffer checks that idle copies use less memory than a buffer
// each.
func TestIdleCopyNeedsNoBuffer(t *testing.T) {
	onBackend(t, "", func(t *testing.T, ctx context.Context) {
		for name, to := range map[string]func(c *stream.Conn) io.Writer{
			"a connection":   func(c *stream.Conn) io.Writer { return c },
			"another writer": func(*stream.Conn) io.Writer { return struct{ io.Writer }{io.Discard} },
		} {
			const conns, most = 100, 16 << 10
			check(t, spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
				together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
					before := inUse(t, ctx)
					for range conns {
						a, b := pair(t, ctx, "unix")
						n.Go(func(context.Context) error {
							defer a.Close()
							defer b.Close()
							_, err := io.Copy(to(a), a)
							return onlyCanceled(err)
						})
						_, err := b.Write(make([]byte, 100))
						check(t, err)
					}
					waiting(t, ctx, conns, "Conn.Read")
					if after := inUse(t, ctx); after.heap-before.heap > conns*most {
						t.Errorf("to %s: %d bytes each", name, (after.heap-before.heap)/conns)
					}
					s.Cancel(nil)
				})
				return nil
			}))
		}
	})
}

// TestIdleReaderKeepsNoLargeBuffer checks that the buffer of a long message is freed
// before the next wait.
func TestIdleReaderKeepsNoLargeBuffer(t *testing.T) {
	onBackend(t, "", func(t *testing.T, ctx context.Context) {
		const readers, most = 100, 8 << 10
		long := strings.Repeat("x", 60_000) + "\n"
		var all []*stream.Reader
		before := inUse(t, ctx)
		for range readers {
			r := stream.NewReader(strings.NewReader(long), 0)
			if line, err := r.ReadLine(); len(line) != 60_000 || err != nil {
				t.Fatal(err)
			}
			if _, err := r.ReadLine(); err != io.EOF {
				t.Fatal(err)
			}
			all = append(all, r)
		}
		if after := inUse(t, ctx); after.heap-before.heap > readers*most {
			t.Errorf("%d bytes each", (after.heap-before.heap)/readers)
		}
		runtime.KeepAlive(all)
	})
}
