package spindle_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
)

func BenchmarkPull(b *testing.B) {
	next, stop := iter.Pull(func(yield func(int) bool) {
		for yield(1) {
		}
	})
	defer stop()
	for b.Loop() {
		next()
	}
}

// BenchmarkPingPong is two tasks that wake each other in turns.
func BenchmarkPingPong(b *testing.B) {
	var ping, pong spindle.Lot
	spindle.Run(context.Background(), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error {
				for range b.N {
					ping.Wait(ctx, "ping")
					pong.Wake(1)
				}
				return nil
			})
			n.Go(func(ctx context.Context) error {
				for range b.N {
					ping.Wake(1)
					pong.Wait(ctx, "pong")
				}
				return nil
			})
			return nil
		})
	})
}

func BenchmarkPingPongGo(b *testing.B) {
	ping, pong := make(chan int), make(chan int)
	go func() {
		for range b.N {
			<-ping
			pong <- 1
		}
	}()
	for range b.N {
		ping <- 1
		<-pong
	}
}

// BenchmarkSpawn starts a task and lets it run to its end.
func BenchmarkSpawn(b *testing.B) {
	b.ReportAllocs()
	nop := func(context.Context) error { return nil }
	spindle.Run(context.Background(), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			for range b.N {
				n.Go(nop)
				spindle.Yield(ctx)
			}
			return nil
		})
	})
}

func BenchmarkGoroutine(b *testing.B) {
	done := make(chan struct{})
	for b.Loop() {
		go func() { done <- struct{}{} }()
		<-done
	}
}

func BenchmarkYield(b *testing.B) {
	spindle.Run(context.Background(), func(ctx context.Context) error {
		for b.Loop() {
			spindle.Yield(ctx)
		}
		return nil
	})
}

// BenchmarkYieldAmong is tasks that take turns, each for the time of one turn.
func BenchmarkYieldAmong(b *testing.B) {
	for _, tasks := range []int{2, 20, 200, 2000, 20_000} {
		b.Run(strconv.Itoa(tasks), func(b *testing.B) {
			spindle.Run(context.Background(), func(ctx context.Context) error {
				return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
					for range tasks {
						n.Go(func(ctx context.Context) error {
							for range b.N / tasks {
								spindle.Yield(ctx)
							}
							return nil
						})
					}
					return nil
				})
			})
		})
	}
}

// BenchmarkSpawnMany starts tasks by the thousand.
func BenchmarkSpawnMany(b *testing.B) {
	b.ReportAllocs()
	spindle.Run(context.Background(), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			nop := func(context.Context) error { return nil }
			for i := range b.N {
				n.Go(nop)
				if i%1000 == 0 {
					spindle.Yield(ctx)
				}
			}
			return nil
		})
	})
}

// BenchmarkSpawnAwait starts a task with a future and awaits its result.
func BenchmarkSpawnAwait(b *testing.B) {
	b.ReportAllocs()
	one := func(context.Context) (int, error) { return 1, nil }
	spindle.Run(context.Background(), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			for b.Loop() {
				if v, err := spindle.Spawn(n, one).Await(ctx); v != 1 || err != nil {
					b.Error(v, err)
				}
			}
			return nil
		})
	})
}

// BenchmarkCallOn is a function on another loop: called by a goroutine and by a task, on a loop without
// other tasks and on one with some.
func BenchmarkCallOn(b *testing.B) {
	one := func(context.Context) (int, error) { return 1, nil }
	for _, tasks := range []int{0, 1} {
		serving := func(b *testing.B, fn func(l *loop.Loop)) {
			l, err := loop.New(loop.Options{})
			if err != nil {
				b.Fatal(err)
			}
			ended := make(chan error)
			if tasks > 0 {
				spindle.RunOn(context.Background(), l, func(ctx context.Context) error { return spindle.Sleep(ctx, time.Hour) }, nil)
			}
			go func() { ended <- l.Run(context.Background()) }()
			fn(l)
			l.Stop()
			if err := errors.Join(<-ended, l.Close()); err != nil {
				b.Error(err)
			}
		}
		b.Run(fmt.Sprintf("goroutine/%d", tasks), func(b *testing.B) {
			b.ReportAllocs()
			serving(b, func(l *loop.Loop) {
				for b.Loop() {
					spindle.CallOn(context.Background(), l, one)
				}
			})
		})
		b.Run(fmt.Sprintf("task/%d", tasks), func(b *testing.B) {
			b.ReportAllocs()
			serving(b, func(l *loop.Loop) {
				spindle.Run(context.Background(), func(ctx context.Context) error {
					for b.Loop() {
						spindle.CallOn(ctx, l, one)
					}
					return nil
				})
			})
		})
	}
}
