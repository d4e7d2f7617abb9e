package sim_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
	"github.com/spindleloop/spindle/transport"
)

// TestExploreLocks: tasks that take locks, and give up now and then, never hold one
// together, and nobody waits for ever.
func TestExploreLocks(t *testing.T) {
	explore(t, 200, func(w *sim.World) {
		tasks, rounds := w.Amount("tasks", 8), w.Amount("rounds", 20)
		w.Host("host").Go(func(ctx context.Context) error {
			r := draws(ctx)
			mu, permits, ready := new(cosync.Mutex), cosync.NewSemaphore(3), new(cosync.Event)
			cond := cosync.NewCond(mu)
			inside, held, waiting := 0, 0, 0
			err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				for range tasks {
					n.Go(func(ctx context.Context) error {
						for range rounds {
							_, err := spindle.MoveOnAfter(ctx, upTo(r, 5*time.Millisecond), func(ctx context.Context) error {
								switch r.IntN(4) {
								case 0:
									if err := mu.Lock(ctx); err != nil {
										return err
									}
									defer mu.Unlock()
									if inside++; inside > 1 {
										return errors.New("two have the lock")
									}
									defer func() { inside-- }()
									return spindle.Sleep(ctx, upTo(r, time.Millisecond))
								case 1:
									if err := permits.Acquire(ctx); err != nil {
										return err
									}
									defer permits.Release()
									if held++; held > 3 {
										return errors.New("four have a permit")
									}
									defer func() { held-- }()
									return spindle.Sleep(ctx, upTo(r, time.Millisecond))
								case 2:
									if err := mu.Lock(ctx); err != nil {
										return err
									}
									defer mu.Unlock()
									waiting++
									defer func() { waiting-- }()
									err := cond.Wait(ctx)
									if inside++; inside > 1 {
										return errors.New("two have the lock behind Wait")
									}
									inside--
									return err
								}
								if waiting > 0 && mu.TryLock() {
									cond.Notify(1)
									mu.Unlock()
								}
								ready.Set()
								return spindle.Sleep(ctx, upTo(r, time.Millisecond))
							})
							if err != nil {
								return err
							}
						}
						return nil
					})
				}
				n.Go(func(ctx context.Context) error {
					defer ready.Set() // whoever was to do it may have given up
					return spindle.Sleep(ctx, time.Minute)
				})
				return ready.Wait(ctx)
			})
			if err != nil {
				return err
			}
			if s := permits.Statistics(); s.Used != 0 || s.Waiting != 0 || !mu.TryLock() {
				return fmt.Errorf("in the end %+v", s)
			}
			return nil
		})
	})
}

// TestExploreNurseries: a tree of tasks that fail, panic, are cancelled, shielded and
// timed out. A nursery never ends before its tasks.
func TestExploreNurseries(t *testing.T) {
	broken := errors.New("broken")
	explore(t, 300, func(w *sim.World) {
		depth := w.Amount("depth", 4)
		w.Host("host").Go(func(ctx context.Context) error {
			r, live := draws(ctx), 0
			var grow func(ctx context.Context, depth int) error
			grow = func(ctx context.Context, depth int) error {
				live++
				defer func() { live-- }()
				if depth == 0 {
					if err := spindle.Sleep(ctx, upTo(r, 10*time.Millisecond)); err != nil {
						return err
					}
					if r.IntN(6) == 0 {
						return broken
					}
					return nil
				}
				mine := 0
				branch := func(ctx context.Context) error {
					err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
						for range 1 + r.IntN(3) {
							n.Go(func(ctx context.Context) error {
								mine++
								defer func() { mine-- }()
								return grow(ctx, depth-1)
							})
						}
						switch r.IntN(5) {
						case 0:
							n.Scope().Cancel(nil)
						case 1:
							return broken
						}
						return spindle.Sleep(ctx, upTo(r, 5*time.Millisecond))
					})
					if mine != 0 {
						return fmt.Errorf("a nursery ended before %d of its tasks", mine)
					}
					return err
				}
				var err error
				switch r.IntN(4) {
				case 0:
					_, err = spindle.MoveOnAfter(ctx, upTo(r, 10*time.Millisecond), branch)
				case 1:
					err = spindle.Shield(ctx, branch)
				case 2:
					err = spindle.FailAfter(ctx, upTo(r, 10*time.Millisecond), branch)
				default:
					err = branch(ctx)
				}
				if errors.Is(err, broken) || errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
					err = nil // it goes on without that branch
				}
				return err
			}
			err := grow(ctx, depth)
			if live != 0 {
				return fmt.Errorf("%d tasks are left: %w", live, err)
			}
			return err
		})
	})
}

// once is a protocol that counts what it is told.
type once struct {
	r          *rand.Rand
	made, lost int
	open       *int
	fault      *error
}

func (o *once) check(ok bool, what string) {
	if !ok && *o.fault == nil {
		*o.fault = errors.New(what)
	}
}

func (o *once) ConnectionMade(c *transport.Conn) {
	o.made++
	*o.open++
	o.check(o.made == 1, "made twice")
	switch o.r.IntN(4) {
	case 0:
		c.Abort()
	case 1:
		c.Write(make([]byte, o.r.IntN(100_000)))
		c.Close()
	default:
		c.Write(make([]byte, o.r.IntN(100_000)))
		c.SetIdleTimeout(time.Second + upTo(o.r, time.Second))
	}
}

func (o *once) DataReceived(c *transport.Conn, data []byte) {
	o.check(o.made == 1 && o.lost == 0, "data without a connection")
	switch o.r.IntN(10) {
	case 0:
		c.Close()
	case 1:
		c.Abort()
	case 2:
		c.WriteEOF()
	case 3:
		c.PauseReading()
		c.Loop().CallLater(upTo(o.r, 10*time.Millisecond), c.ResumeReading)
	default:
		c.Write(data)
	}
}

func (o *once) ConnectionLost(c *transport.Conn, err error) {
	o.lost++
	*o.open--
	o.check(o.lost == 1, "lost twice")
}

// TestExploreConnectionStorms: connections that are closed, aborted and cut off at
// any moment are lost exactly once each, and none is left.
func TestExploreConnectionStorms(t *testing.T) {
	explore(t, 60, func(w *sim.World) {
		open, fault, connects := 0, error(nil), w.Amount("connects", 20)
		server := w.Host("server")
		server.Serve(func(ctx context.Context) error {
			r := draws(ctx)
			s, err := transport.Listen(spindle.LoopOf(ctx), "tcp", ":7", transport.Options{
				Protocol: func() transport.Protocol { return &once{r: r, open: &open, fault: &fault} }, MaxConns: 5,
			})
			if err != nil {
				return err
			}
			defer s.Close()
			var forever spindle.Lot
			return forever.Wait(ctx, "the end")
		})
		for i := range w.Amount("clients", 3) {
			w.Host(fmt.Sprint("client", i)).Go(func(ctx context.Context) error {
				r := draws(ctx)
				for range connects {
					inner, cancel := context.WithCancel(ctx)
					transport.Connect(inner, spindle.LoopOf(ctx), "tcp", "server:7", transport.ConnectOptions{Protocol: &once{r: r, open: &open, fault: &fault}, Timeout: 2 * time.Second, OnError: func(error) {}})
					if r.IntN(4) == 0 {
						cancel()
					}
					err := spindle.Sleep(ctx, upTo(r, 300*time.Millisecond))
					if cancel(); err != nil {
						return err
					}
				}
				return spindle.Sleep(ctx, 10*time.Minute)
			})
		}
		w.Always("everybody is told once", func() error { return fault })
		w.Faults = sim.Faults{For: 8 * time.Second, Lasting: time.Second, Dribble: 0.1, Loss: 0.02, Spurious: 0.05,
			PartitionEvery: 2 * time.Second, PauseEvery: 3 * time.Second, SlowEvery: 3 * time.Second, CallEvery: 2 * time.Second}
		w.After(9*time.Minute, func() { // what was sent on a slow line takes its time
			if open != 0 {
				fault = fmt.Errorf("%d connections are left", open)
			}
		})
	})
}

// TestExploreSharedConns: several tasks read and write one connection. What one writes
// stays together, and closing it ends every wait.
func TestExploreSharedConns(t *testing.T) {
	explore(t, 60, func(w *sim.World) {
		rounds := w.Amount("rounds", 5)
		w.Host("server").Serve(func(ctx context.Context) error {
			ln, err := stream.Listen(ctx, "tcp", ":7")
			if err != nil {
				return err
			}
			return stream.Serve(ctx, ln, func(ctx context.Context, c *stream.Conn) error {
				_, err := io.Copy(c, c)
				return err
			})
		})
		w.Host("client").Go(func(ctx context.Context) error {
			r := draws(ctx)
			for range rounds {
				c, err := stream.Dial(ctx, "tcp", "server:7")
				if err != nil {
					return err
				}
				const size = 30_000
				writers := 1 + r.IntN(4)
				if err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
					for i := range writers {
						n.Go(func(ctx context.Context) error {
							b := make([]byte, size)
							for j := range b {
								b[j] = byte(i)
							}
							_, err := c.Write(b)
							return closedIsFine(err)
						})
					}
					n.Go(func(ctx context.Context) error {
						block := make([]byte, size)
						for range writers {
							if _, err := io.ReadFull(c, block); err != nil {
								return closedIsFine(err)
							}
							for _, b := range block {
								if b != block[0] {
									return errors.New("two writes are mixed")
								}
							}
						}
						return nil
					})
					if r.IntN(2) == 0 {
						if err := spindle.Sleep(ctx, upTo(r, 50*time.Millisecond)); err != nil {
							return err
						}
						return c.Close()
					}
					return nil
				}); err != nil {
					return err
				}
				c.Close()
			}
			return nil
		})
		w.Faults = sim.Faults{For: 3 * time.Second, Lasting: time.Second, Dribble: 0.2, Loss: 0.01, Spurious: 0.1, PartitionEvery: 2 * time.Second, PauseEvery: 2 * time.Second}
	})
}

func closedIsFine(err error) error {
	if errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}
