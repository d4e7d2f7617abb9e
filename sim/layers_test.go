package sim_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
)

// The layers of this module under the simulator: what they promise, held against
// schedules and networks that are drawn.

// explore runs n seeds, or as many as SPINDLE_EXPLORE says, and wants no descriptor
// to be left.
func explore(t *testing.T, n int, setup func(w *sim.World)) {
	t.Helper()
	if more, err := strconv.Atoi(os.Getenv("SPINDLE_EXPLORE")); err == nil {
		n = more
	}
	sim.Explore(t, max(1, n/fewer), func(w *sim.World) {
		setup(w)
		w.Always("nobody leaves a descriptor open", func() error {
			if n := sim.LeftOpen(w); n > 0 {
				return fmt.Errorf("%d were", n)
			}
			return nil
		})
	})
}

// draws is a source of numbers for a task.
func draws(ctx context.Context) *rand.Rand { return rand.New(spindle.LoopOf(ctx).Kernel()) }

// upTo draws a time.
func upTo(r *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(most)))
}

// TestExploreDrain: a server that is stopped again and again lets requests under way
// finish, for a while. An answer is whole or an error.
func TestExploreDrain(t *testing.T) {
	const drain = 2 * time.Second
	explore(t, 60, func(w *sim.World) {
		server := w.Host("server")
		server.Serve(func(ctx context.Context) error {
			r, handling := draws(ctx), 0
			for {
				ln, err := stream.Listen(ctx, "tcp", ":7")
				if err != nil {
					if err := spindle.Sleep(ctx, 50*time.Millisecond); err != nil {
						return err
					}
					continue
				}
				begun, life := spindle.Now(ctx), upTo(r, 3*time.Second)
				_, err = spindle.MoveOnAfter(ctx, life, func(ctx context.Context) error {
					return stream.ServeConfig{Drain: drain, MaxConns: 2}.Serve(ctx, ln, func(ctx context.Context, c *stream.Conn) error {
						handling++
						defer func() { handling-- }()
						line, err := bufio.NewReader(c).ReadString('\n')
						if err != nil {
							return err
						}
						if err := spindle.Sleep(ctx, upTo(r, 500*time.Millisecond)); err != nil {
							return err
						}
						_, err = io.WriteString(c, strings.Repeat(line, 1000))
						return err
					})
				})
				if err != nil {
					return err
				}
				if handling != 0 {
					return fmt.Errorf("%d handlers run when Serve has returned", handling)
				}
				if took := spindle.Now(ctx).Sub(begun); took > life+drain+time.Second/10 && server.Up() {
					server.Note("it took %v", took)
				}
			}
		})
		for i := range w.Amount("clients", 4) {
			client := w.Host(fmt.Sprint("client", i))
			client.Go(func(ctx context.Context) error {
				r := draws(ctx)
				for range 10 {
					if err := spindle.Sleep(ctx, upTo(r, time.Second)); err != nil {
						return err
					}
					err := spindle.FailAfter(ctx, 5*time.Second, func(ctx context.Context) error {
						c, err := stream.Dial(ctx, "tcp", "server:7")
						if err != nil {
							return err
						}
						defer c.Close()
						if _, err := fmt.Fprintln(c, client.Name()); err != nil {
							return err
						}
						answer, err := io.ReadAll(c)
						if err == nil && len(answer) > 0 && string(answer) != strings.Repeat(client.Name()+"\n", 1000) {
							return fmt.Errorf("%w: %d bytes", errWrong, len(answer))
						}
						return err
					})
					if errors.Is(err, errWrong) {
						return err
					}
				}
				return nil
			})
		}
		w.Faults = sim.Faults{For: 10 * time.Second, Lasting: time.Second, Dribble: 0.2, Loss: 0.01, Spurious: 0.05,
			PartitionEvery: 3 * time.Second, PauseEvery: 3 * time.Second, CallEvery: time.Second}
	})
}

// TestExploreCancelledReadsAndWrites: a cancelled Read has taken nothing, and a
// cancelled Write tells how much it has written: who goes on from there loses and
// doubles nothing.
func TestExploreCancelledReadsAndWrites(t *testing.T) {
	explore(t, 60, func(w *sim.World) {
		size := w.Amount("kilobytes", 300) << 10
		// patient calls do again and again, each time for a little while.
		patient := func(ctx context.Context, r *rand.Rand, do func(ctx context.Context) error) error {
			for {
				late, err := spindle.MoveOnAfter(ctx, upTo(r, 3*time.Millisecond), do)
				if err != nil || !late {
					return err
				}
			}
		}
		w.Host("server").Serve(func(ctx context.Context) error {
			ln, err := stream.Listen(ctx, "tcp", ":7")
			if err != nil {
				return err
			}
			return stream.Serve(ctx, ln, func(ctx context.Context, c *stream.Conn) error {
				r, sent := draws(ctx), 0
				for sent < size {
					some := 1 + r.IntN(40_000)
					data := serial(sent, min(some, size-sent))
					for len(data) > 0 {
						spindle.MoveOnAfter(ctx, upTo(r, 3*time.Millisecond), func(ctx context.Context) error {
							n, err := c.Write(data)
							sent, data = sent+n, data[n:]
							return err
						})
						if ctx.Err() != nil {
							return spindle.Checkpoint(ctx)
						}
					}
				}
				return c.CloseWrite()
			})
		})
		w.Host("client").Go(func(ctx context.Context) error {
			r := draws(ctx)
			c, err := stream.Dial(ctx, "tcp", "server:7")
			if err != nil {
				return err
			}
			defer c.Close()
			got, buf := 0, make([]byte, 10_000)
			for {
				n := 0
				err := patient(ctx, r, func(ctx context.Context) (err error) {
					if n != 0 {
						return errors.New("a cancelled Read has read something")
					}
					n, err = c.Read(buf[:1+r.IntN(len(buf)-1)])
					return err
				})
				if string(buf[:n]) != string(serial(got, n)) {
					return fmt.Errorf("not what was sent, from %d on", got)
				}
				got += n
				if err == io.EOF {
					break
				}
				if err != nil {
					return err
				}
			}
			if got != size {
				return fmt.Errorf("%d bytes of %d", got, size)
			}
			return nil
		})
		w.Faults = sim.Faults{For: 5 * time.Second, Lasting: time.Second, Dribble: 0.3, Loss: 0.01, Spurious: 0.1,
			PartitionEvery: 2 * time.Second, SlowEvery: 3 * time.Second, PauseEvery: 2 * time.Second}
	})
}

// serial are bytes that tell where they belong.
func serial(from, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		x := uint32(from+i) / 3 * 2654435761
		b[i] = byte(x >> (8 * ((from + i) % 3)))
	}
	return b
}

// TestExploreInboxes: tasks of several loops give values to each other, and give up
// now and then. Each value is got once.
func TestExploreInboxes(t *testing.T) {
	explore(t, 100, func(w *sim.World) {
		each := w.Amount("values", 30)
		in, out := cosync.NewInbox[int](2), cosync.NewInbox[int](3)
		got := map[int]int{}
		producers, workers, left := 0, 0, 0
		w.Host("host").Exec(func(o loop.Options) error {
			g, err := loop.NewGroup(3, o)
			if err != nil {
				return err
			}
			defer g.Close()
			run := func(l *loop.Loop, fn func(ctx context.Context, r *rand.Rand) error) {
				left++
				spindle.RunOn(context.Background(), l, func(ctx context.Context) error { return fn(ctx, draws(ctx)) }, func(err error) {
					if left--; err != nil {
						panic(err)
					}
					if left == 0 {
						g.Stop()
					}
				})
			}
			for i, l := range g.Loops() {
				producers++
				run(l, func(ctx context.Context, r *rand.Rand) error {
					for n := range each {
						for put := false; !put; {
							if _, err := spindle.MoveOnAfter(ctx, upTo(r, 2*time.Millisecond), func(ctx context.Context) error {
								err := in.Put(ctx, i*1000+n)
								put = err == nil
								return err
							}); err != nil {
								return err
							}
						}
						if r.IntN(3) == 0 {
							if err := spindle.Sleep(ctx, upTo(r, 4*time.Millisecond)); err != nil {
								return err
							}
						}
					}
					if producers--; producers == 0 {
						in.Close()
					}
					return nil
				})
				workers++
				run(l, func(ctx context.Context, r *rand.Rand) error {
					for {
						v, some := 0, false
						_, err := spindle.MoveOnAfter(ctx, upTo(r, 2*time.Millisecond), func(ctx context.Context) (err error) {
							v, err = in.Get(ctx)
							some = err == nil
							return err
						})
						if errors.Is(err, cosync.ErrClosed) {
							break
						}
						if err != nil {
							return err
						}
						if some {
							if err := out.Put(ctx, v); err != nil {
								return err
							}
						}
					}
					if workers--; workers == 0 {
						out.Close()
					}
					return nil
				})
				run(l, func(ctx context.Context, r *rand.Rand) error {
					for v, err := range out.All(ctx) {
						if err != nil {
							return err
						}
						got[v]++
					}
					return nil
				})
			}
			if err := g.Run(context.Background()); err != nil {
				return err
			}
			if len(got) != 3*each {
				return fmt.Errorf("%d values of %d", len(got), 3*each)
			}
			for v, n := range got {
				if n != 1 {
					return fmt.Errorf("%d came %d times", v, n)
				}
			}
			return nil
		})
		w.Faults = sim.Faults{Spurious: 0.1}
	})
}
