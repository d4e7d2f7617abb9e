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
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/stream"
)

const crowdAt = "SPINDLE_TEST_CROWD"

// crowd is many clients, in a process of their own, so that what they take is not
// the server's. It does as it is told: a number makes so many connections; "echo"
// has each send a byte and wait for it to come back.
func crowd(address string) {
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
		}
		if orders.Text() == "echo" {
			for i, fd := range conns {
				syscall.Write(fd, []byte{byte(i)})
			}
			p := make([]byte, 2)
			for i, fd := range conns {
				if n, err := syscall.Read(fd, p); n != 1 || p[0] != byte(i) {
					fmt.Println("connection", i, n, err)
					os.Exit(1)
				}
			}
		}
		fmt.Println("done")
	}
}

// order makes a crowd and returns what gives it orders.
func order(t *testing.T, address string) func(ctx context.Context, what string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crowdAt+"="+address)
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

// TestManyConnections are open at once on one loop, and each is served. What an
// idle one takes is measured, before and after it was used: heap, and a stack that
// has never grown.
func TestManyConnections(t *testing.T) {
	const mostBytes, mostStack = 3276, 2048 + 64 // 3.2 KB
	check(t, spindle.Run(t.Context(), func(ctx context.Context) error {
		ln := listen(t, ctx, "tcp")
		waits := 0
		spindle.Background(ctx).Go(func(ctx context.Context) error {
			return stream.Serve(ctx, ln, func(ctx context.Context, c *stream.Conn) error {
				for {
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
			until(t, ctx, func() bool { return waits == n })
			return inUse(t, ctx)
		}
		for range 10_000 { // after a peak the loop keeps some memory for the next one
			spindle.LoopOf(ctx).CallSoon(func() {})
		}
		const first = manyConns / 3
		do(ctx, strconv.Itoa(first))
		before := idle(first)
		grown := func(when string) {
			t.Helper()
			after := idle(manyConns)
			heap, stack := (after.heap-before.heap)/(manyConns-first), (after.stack-before.stack)/(manyConns-first)
			t.Logf("%s: %d bytes of heap and %d of stack", when, heap, stack)
			if !underRace && (heap+stack > mostBytes || stack > mostStack) {
				t.Errorf("more than %v, or than %v of stack", mostBytes, mostStack)
			}
		}
		do(ctx, strconv.Itoa(manyConns-first))
		grown("a connection that was never used")
		do(ctx, "echo")
		grown("one that was")
		return nil
	}))
}

// memory is what is in use after a collection.
type memory struct{ heap, stack int64 }

func inUse(t *testing.T, ctx context.Context) memory {
	t.Helper()
	check(t, spindle.Sleep(ctx, time.Millisecond)) // the loop waits, and gives back what a peak took
	m, err := spindle.Blocking(ctx, func() (m runtime.MemStats, err error) {
		runtime.GC()
		runtime.GC() // what finalizers and pools kept through the first
		runtime.ReadMemStats(&m)
		return m, nil
	})
	check(t, err)
	return memory{int64(m.HeapAlloc), int64(m.StackInuse)}
}

// TestShortConnections come and go, and leave nothing behind: run counts descriptors.
func TestShortConnections(t *testing.T) {
	run(t, spindle.Options{}, func(ctx context.Context) error {
		left, answered := shortConns, 0
		err := served(t, ctx, stream.ServeConfig{}, echo, func(ctx context.Context, ln *stream.Listener, _ *spindle.Scope) {
			together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
				for range 50 {
					n.Go(func(ctx context.Context) error {
						p := make([]byte, 5)
						for left > 0 {
							left--
							c, err := stream.Dial(ctx, "tcp", ln.Addr().String())
							if err != nil {
								return err
							}
							c.Write([]byte("hello"))
							if _, err := io.ReadFull(c, p); err != nil {
								return err
							}
							answered++
							c.SetLinger(0) // so that the system does not run out of ports
							c.Close()
						}
						return nil
					})
				}
			})
		})
		want(t, "Serve", err, context.Canceled)
		if answered != shortConns {
			t.Errorf("%d were answered", answered)
		}
		if s := spindle.LoopOf(ctx).Stats(); s.FDs != 0 || s.Timers != 0 {
			t.Errorf("left in the loop: %+v", s)
		}
		return nil
	})
}
