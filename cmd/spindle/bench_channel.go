package main

import (
	"context"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
)

// benchChannel measures channels between two tasks, beside Go's channels between two
// goroutines: a value sent and one sent back, unbuffered, and values sent one way through a
// buffer.
func benchChannel(ctx context.Context, s *session) error {
	if err := s.pair(ctx, s.messages, "channel_ns", pingPong, "go_channel_ns", goPingPong); err != nil {
		return err
	}
	return s.pair(ctx, 4*s.messages, "channel_buffered_ns", flow, "go_channel_buffered_ns", goFlow)
}

const channelBuffer = 64

func pingPong(ctx context.Context, n int) error {
	ping, pinged := cosync.NewChannel[int](0)
	pong, ponged := cosync.NewChannel[int](0)
	return spindle.WithNursery(ctx, func(ctx context.Context, nursery *spindle.Nursery) error {
		nursery.Go(func(ctx context.Context) error {
			for range n {
				v, err := pinged.Receive(ctx)
				if err != nil {
					return err
				}
				if err := pong.Send(ctx, v); err != nil {
					return err
				}
			}
			return nil
		})
		for i := range n {
			if err := ping.Send(ctx, i); err != nil {
				return err
			}
			if _, err := ponged.Receive(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

func goPingPong(n int) {
	ping, pong := make(chan int), make(chan int)
	go func() {
		for range n {
			pong <- <-ping
		}
	}()
	for i := range n {
		ping <- i
		<-pong
	}
}

func flow(ctx context.Context, n int) error {
	in, out := cosync.NewChannel[int](channelBuffer)
	return spindle.WithNursery(ctx, func(ctx context.Context, nursery *spindle.Nursery) error {
		nursery.Go(func(ctx context.Context) error {
			for i := range n {
				if err := in.Send(ctx, i); err != nil {
					return err
				}
			}
			return nil
		})
		for range n {
			if _, err := out.Receive(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

func goFlow(n int) {
	values := make(chan int, channelBuffer)
	go func() {
		for i := range n {
			values <- i
		}
	}()
	for range n {
		<-values
	}
}
