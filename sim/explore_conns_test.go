package sim_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
	"github.com/spindleloop/spindle/transport"
)

// TestExploreDrain: a server is stopped many times, and lets current requests finish for
// some time. Each answer is complete or an error.
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
					return fmt.Errorf("%d handlers run after Serve has returned", handling)
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

// TestExploreCancelledReadsAndWrites: a cancelled Read has read nothing, and a cancelled
// Write returns how much it has written. A program that continues from there loses and
// repeats nothing.
func TestExploreCancelledReadsAndWrites(t *testing.T) {
	explore(t, 60, func(w *sim.World) {
		size := w.Amount("kilobytes", 300) << 10
		// patient calls do until it is not cancelled. Each call has little time.
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

// serial returns n bytes with values that depend on their position.
func serial(from, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		x := uint32(from+i) / 3 * 2654435761
		b[i] = byte(x >> (8 * ((from + i) % 3)))
	}
	return b
}

// once is a protocol that checks the number and order of its callbacks.
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

// TestExploreConnectionStorms: connections are closed, aborted and partitioned at any time.
// ConnectionLost is called exactly once for each, and none is left.
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
		w.Always("callbacks come once and in order", func() error { return fault })
		w.Faults = sim.Faults{For: 8 * time.Second, Lasting: time.Second, Dribble: 0.1, Loss: 0.02, Spurious: 0.05,
			PartitionEvery: 2 * time.Second, PauseEvery: 3 * time.Second, SlowEvery: 3 * time.Second, CallEvery: 2 * time.Second}
		w.After(9*time.Minute, func() { // bytes on a slow link take long
			if open != 0 {
				fault = fmt.Errorf("%d connections are left", open)
			}
		})
	})
}

// TestExploreSharedConns: several tasks read and write one connection. The bytes of one
// Write stay together, and Close ends every wait.
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
