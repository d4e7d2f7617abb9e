package cosync_test

import (
	"context"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/loop"
)

// Each benchmark of channels has a counterpart with two goroutines and a Go channel.
// Compare them within one run.

func BenchmarkUnbuffered(b *testing.B) {
	b.Run("spindle", func(b *testing.B) { benchmarkPingPong(b, 0) })
	b.Run("go", func(b *testing.B) { benchmarkPingPongGo(b, 0) })
}

func BenchmarkBuffered(b *testing.B) {
	b.Run("spindle", func(b *testing.B) { benchmarkStream(b, 64) })
	b.Run("go", func(b *testing.B) { benchmarkStreamGo(b, 64) })
}

// run runs a program without a watchdog.
func run(b *testing.B, program func(ctx context.Context, n *spindle.Nursery) error) {
	b.ReportAllocs()
	o := spindle.Options{Loop: loop.Options{Watchdog: -1}}
	err := o.Run(context.Background(), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, program)
	})
	if err != nil {
		b.Fatal(err)
	}
}

func benchmarkPingPong(b *testing.B, capacity int) {
	pingTx, pingRx := cosync.NewChannel[int](capacity)
	pongTx, pongRx := cosync.NewChannel[int](capacity)
	run(b, func(ctx context.Context, n *spindle.Nursery) error {
		n.Go(func(ctx context.Context) error {
			for v, err := range pingRx.All(ctx) {
				if err != nil {
					return err
				}
				if err := pongTx.Send(ctx, v); err != nil {
					return err
				}
			}
			return nil
		})
		defer pingTx.Close()
		for i := range b.N {
			if err := pingTx.Send(ctx, i); err != nil {
				return err
			}
			if v, err := pongRx.Receive(ctx); v != i || err != nil {
				b.Errorf("%d came back for %d, %v", v, i, err)
			}
		}
		return nil
	})
}

func benchmarkPingPongGo(b *testing.B, capacity int) {
	b.ReportAllocs()
	ping, pong := make(chan int, capacity), make(chan int, capacity)
	go func() {
		for v := range ping {
			pong <- v
		}
		close(pong)
	}()
	for i := range b.N {
		ping <- i
		if v := <-pong; v != i {
			b.Errorf("%d came back for %d", v, i)
		}
	}
	close(ping)
	<-pong
}

func benchmarkStream(b *testing.B, capacity int) {
	tx, rx := cosync.NewChannel[int](capacity)
	run(b, func(ctx context.Context, n *spindle.Nursery) error {
		n.Go(func(ctx context.Context) error {
			defer tx.Close()
			for i := range b.N {
				if err := tx.Send(ctx, i); err != nil {
					return err
				}
			}
			return nil
		})
		next := 0
		for v, err := range rx.All(ctx) {
			if v != next || err != nil {
				b.Errorf("%d instead of %d, %v", v, next, err)
			}
			next++
		}
		return nil
	})
}

func benchmarkStreamGo(b *testing.B, capacity int) {
	b.ReportAllocs()
	c := make(chan int, capacity)
	go func() {
		for i := range b.N {
			c <- i
		}
		close(c)
	}()
	next := 0
	for v := range c {
		if v != next {
			b.Errorf("%d instead of %d", v, next)
		}
		next++
	}
}

// BenchmarkCheckpoint measures the cost that every call has that need not wait: twice for
// a value of BenchmarkBuffered, once for BenchmarkMutex.
func BenchmarkCheckpoint(b *testing.B) {
	run(b, func(ctx context.Context, _ *spindle.Nursery) error {
		for range b.N {
			if err := spindle.Checkpoint(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// BenchmarkLot is like BenchmarkUnbuffered, with a spindle.Lot instead of a channel.
func BenchmarkLot(b *testing.B) {
	var ping, pong spindle.Lot
	run(b, func(ctx context.Context, n *spindle.Nursery) error {
		n.Go(func(ctx context.Context) error {
			for range b.N {
				if err := ping.Wait(ctx, "ping"); err != nil {
					return err
				}
				pong.Wake(1)
			}
			return nil
		})
		if err := spindle.Yield(ctx); err != nil {
			return err
		}
		for range b.N {
			ping.Wake(1)
			if err := pong.Wait(ctx, "pong"); err != nil {
				return err
			}
		}
		return nil
	})
}

func BenchmarkMutex(b *testing.B) {
	var m cosync.Mutex
	run(b, func(ctx context.Context, _ *spindle.Nursery) error {
		for range b.N {
			if err := m.Lock(ctx); err != nil {
				return err
			}
			m.Unlock()
		}
		return nil
	})
}

// BenchmarkMutexContended: two tasks hand a mutex to each other.
func BenchmarkMutexContended(b *testing.B) {
	var m cosync.Mutex
	run(b, func(ctx context.Context, n *spindle.Nursery) error {
		for range 2 {
			n.Go(func(ctx context.Context) error {
				for range b.N / 2 {
					if err := m.Lock(ctx); err != nil {
						return err
					}
					if err := spindle.Yield(ctx); err != nil {
						return err
					}
					m.Unlock()
				}
				return nil
			})
		}
		return nil
	})
}

// BenchmarkInbox: a goroutine puts values, and a task gets them.
func BenchmarkInbox(b *testing.B) {
	in := cosync.NewInbox[int](1024)
	run(b, func(ctx context.Context, _ *spindle.Nursery) error {
		go func() {
			defer in.Close()
			for i := range b.N {
				if err := in.Put(context.Background(), i); err != nil {
					b.Error(err)
				}
			}
		}()
		got := 0
		for _, err := range in.All(ctx) {
			if err != nil {
				return err
			}
			got++
		}
		if got != b.N {
			b.Errorf("%d of %d", got, b.N)
		}
		return nil
	})
}
