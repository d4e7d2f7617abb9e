package cancelpoints_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
)

// TestCancelWaitsForDescriptorsAtEveryStep is TestCancelAtEveryWait on a real
// kernel: one task reads what another writes into a full socket, a third takes
// over from the one that is cancelled. Every byte arrives, once and in order, and no
// watch stays behind that would refuse the next task.
func TestCancelWaitsForDescriptorsAtEveryStep(t *testing.T) {
	for victim, wait := range []string{"WaitReadable", "WaitWritable"} {
		t.Run(wait, func(t *testing.T) {
			met := false
			lanes := []loop.Priority{loop.High, loop.Normal, loop.Low}
			if testing.Short() {
				lanes = lanes[1:2]
			}
			for _, lane := range lanes {
				for step := 0; ; step++ {
					h, err := transfer(t, victim, lane, step)
					if err != nil {
						t.Fatalf("lane %d, cancelled at step %d in %q: %v", lane, step, h.waits, err)
					}
					for _, what := range h.waits {
						met = met || what == wait
					}
					if h.over {
						break
					}
				}
			}
			if !met {
				t.Error("no such wait was cancelled")
			}
		})
	}
}

// transfer sends bytes from one task to another and cancels one of them.
func transfer(t *testing.T, victim int, lane loop.Priority, step int) (h hit, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		defer syscall.Close(fd)
		if err := errors.Join(syscall.SetNonblock(fd, true), syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_SNDBUF, 1)); err != nil {
			t.Fatal(err)
		}
	}
	p := &postman{from: fds[0], to: fds[1]}
	h.over = true
	err = spindle.Run(t.Context(), func(ctx context.Context) error {
		st := &stage{targets: make([]target, 2)}
		err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.GoWith(spindle.TaskOptions{Name: "injector", Priority: lane}, func(ctx context.Context) error {
				for range step {
					if err := spindle.Yield(ctx); err != nil {
						return err
					}
				}
				h = interfere(ctx, &st.targets[victim])
				return nil
			})
			for i, work := range []func(context.Context) error{p.read, p.write} {
				n.Go(func(ctx context.Context) error {
					if err := st.target(i, work)(ctx); err != nil {
						return err
					}
					return work(ctx) // takes over
				})
			}
			return nil
		})
		if fds := spindle.LoopOf(ctx).Stats().FDs; err == nil && fds != 0 {
			err = fmt.Errorf("%d descriptors are watched still", fds)
		}
		return errors.Join(err, st.check(ctx, true)) // on a real clock
	})
	return h, err
}

// postman moves more bytes than the socket holds.
type postman struct {
	from, to       int
	sent, received int
}

const freight = 8 << 10

// cargo returns the byte at an offset of the data.
func cargo(at int) byte { return byte(at % 251) }

func (p *postman) write(ctx context.Context) error {
	for p.sent < freight {
		var load []byte
		for at := p.sent; at < freight; at++ {
			load = append(load, cargo(at))
		}
		n, err := syscall.Write(p.to, load)
		switch {
		case err == syscall.EAGAIN:
			err = spindle.WaitWritable(ctx, p.to)
		case err == nil:
			p.sent += n
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *postman) read(ctx context.Context) error {
	for p.received < freight {
		if err := spindle.WaitReadable(ctx, p.from); err != nil {
			return err
		}
		var load [freight / 4]byte
		n, err := syscall.Read(p.from, load[:])
		if err != nil {
			return err
		}
		for _, b := range load[:n] {
			if b != cargo(p.received) {
				return fmt.Errorf("byte %d is %d", p.received, b)
			}
			p.received++
		}
	}
	return nil
}
