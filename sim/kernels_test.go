package sim_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/transport"
)

// onEveryKernel runs a program on the real kernels and in a simulated world.
func onEveryKernel(t *testing.T, program func(t *testing.T, ctx context.Context) error) {
	for _, name := range append(short.Backends(), "sim") {
		t.Run(name, func(t *testing.T) {
			play := func(ctx context.Context) error { return program(t, ctx) }
			if name == "sim" {
				sim.Test(t, play)
				return
			}
			if err := (spindle.Options{Loop: loop.Options{Backend: name}}).Run(t.Context(), play); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestSameResultOnEveryKernel runs one program on the real kernels and the simulated one,
// and compares the results. It is an echo server with clients, some with more data than
// fits into any buffer, a refused connection, a timeout, name lookups and offloaded work.
func TestSameResultOnEveryKernel(t *testing.T) {
	results := map[string]string{}
	onEveryKernel(t, func(t *testing.T, ctx context.Context) error {
		log, err := town(ctx)
		results[spindle.LoopOf(ctx).Internal().Kernel().Name()] = log
		return err
	})
	for name, got := range results {
		if want := results["sim"]; got != want {
			t.Errorf("%s:\n%s\nsim:\n%s", name, got, want)
		}
	}
	if n := strings.Count(results["sim"], "\n"); n != 13 {
		t.Errorf("%d lines:\n%s", n, results["sim"])
	}
}

// town is the program. It returns its results in sorted order.
func town(ctx context.Context) (string, error) {
	var log []string
	note := func(name string, err error) { log = append(log, fmt.Sprintf("%s: %v\n", name, outcomeOf(err))) }
	err := spindle.WithScope(ctx, func(ctx context.Context, _ *spindle.Scope) error {
		s, err := transport.Listen(spindle.LoopOf(ctx), "tcp", "127.0.0.1:0", transport.Options{
			Protocol: func() transport.Protocol { return echo{} },
		})
		if err != nil {
			return err
		}
		closed, err := transport.Listen(spindle.LoopOf(ctx), "tcp", "127.0.0.1:0", transport.Options{
			Protocol: func() transport.Protocol { return echo{} },
		})
		if err != nil {
			return err
		}
		closed.Close()
		err = spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			at := s.Addr().String()
			_, port, _ := strings.Cut(at, ":")
			for i := range 8 {
				n.Go(func(ctx context.Context) error {
					note(fmt.Sprint("small ", i), ask(ctx, at, "hello", "again", strings.Repeat("x", i)+"!"))
					return nil
				})
			}
			for i := range 2 {
				n.Go(func(ctx context.Context) error {
					note(fmt.Sprint("large ", i), ask(ctx, "localhost:"+port, strings.Repeat("0123456789", 1<<19+i), "and small"))
					return nil
				})
			}
			n.Go(func(ctx context.Context) error {
				note("refused", ask(ctx, closed.Addr().String(), "hello"))
				return nil
			})
			n.Go(func(ctx context.Context) error {
				note("timeout", spindle.FailAfter(ctx, 20*time.Millisecond, func(ctx context.Context) error {
					var never spindle.Lot
					return never.Wait(ctx, "never")
				}))
				return nil
			})
			n.Go(func(ctx context.Context) error {
				v, err := spindle.Blocking(ctx, func() (string, error) { return "work", nil })
				note(v, err)
				return nil
			})
			return nil
		})
		drained := spindle.NewFuture[int](ctx)
		err = errors.Join(err, s.Drain(func() { drained.Resolve(0) }))
		_, late := drained.Await(ctx)
		return errors.Join(err, late)
	})
	slices.Sort(log)
	return strings.Join(log, ""), err
}

// outcomeOf returns the part of an error that is the same on every kernel.
func outcomeOf(err error) string {
	var errno syscall.Errno
	switch {
	case err == nil:
		return "fine"
	case errors.As(err, &errno):
		return errno.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return "timed out"
	}
	return err.Error()
}

// TestWaitingForDescriptorsOnEveryKernel: tasks wait for the readiness of sockets that they
// use directly.
func TestWaitingForDescriptorsOnEveryKernel(t *testing.T) {
	onEveryKernel(t, func(t *testing.T, ctx context.Context) error {
		k := spindle.LoopOf(ctx).Internal().Kernel()
		l, at, err := listenOn(k)
		if err != nil {
			return err
		}
		defer k.CloseFD(l)
		sent := bytes.Repeat([]byte("spindle "), 1<<17)
		var got []byte
		err = spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error {
				if err := spindle.WaitReadable(ctx, l); err != nil {
					return err
				}
				fd, err := k.Accept(l)
				if err != nil {
					return err
				}
				defer k.CloseFD(fd)
				got, err = readAll(ctx, k, fd)
				return err
			})
			n.Go(func(ctx context.Context) error {
				fd, err := k.Socket(kernel.IPv4, kernel.Stream)
				if err != nil {
					return err
				}
				defer k.CloseFD(fd)
				if err := k.Connect(fd, at); err != nil && err != syscall.EINPROGRESS {
					return err
				}
				return writeAll(ctx, k, fd, sent)
			})
			return nil
		})
		if !bytes.Equal(got, sent) {
			t.Errorf("%d of %d bytes arrived", len(got), len(sent))
		}
		return err
	})
}

func listenOn(k *kernel.Kernel) (fd int, at kernel.Addr, err error) {
	if fd, err = k.Socket(kernel.IPv4, kernel.Stream); err != nil {
		return -1, at, err
	}
	at.AddrPort = loopback
	if err = errors.Join(k.Bind(fd, at), k.Listen(fd, 1)); err == nil {
		at, err = k.LocalAddr(fd)
	}
	return fd, at, err
}

func readAll(ctx context.Context, k *kernel.Kernel, fd int) (all []byte, err error) {
	buf := make([]byte, 64<<10)
	for {
		switch n, err := k.Recv(fd, buf); {
		case err == syscall.EAGAIN:
			if err := spindle.WaitReadable(ctx, fd); err != nil {
				return all, err
			}
		case err != nil || n == 0:
			return all, err
		default:
			all = append(all, buf[:n]...)
		}
	}
}

func writeAll(ctx context.Context, k *kernel.Kernel, fd int, b []byte) error {
	for len(b) > 0 {
		if err := spindle.WaitWritable(ctx, fd); err != nil {
			return err
		}
		n, err := k.Send(fd, b)
		if err != nil && err != syscall.EAGAIN {
			return err
		}
		b = b[n:]
	}
	return nil
}
