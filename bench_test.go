package spindle_test

import (
	"context"
	"iter"
	"testing"

	"github.com/spindleloop/spindle"
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

func BenchmarkGoroutine(b *testing.B) {
	done := make(chan struct{})
	for b.Loop() {
		go func() { done <- struct{}{} }()
		<-done
	}
}
