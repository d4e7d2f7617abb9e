package main

import (
	"context"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
)

// benchChannel measures channels between two tasks beside Go's between two
// goroutines: a value there and one back from hand to hand, and values that go
// one way through a buffer.
func benchChannel(ctx context.Context, s *session) error {
	if err := s.pair(ctx, s.messages, "channel_ns", s.pingPong, "go_channel_ns", s.goPingPong); err != nil {
		return err
	}
	many := *s
	many.messages *= 4
	return s.pair(ctx, many.messages, "channel_buffered_ns", many.flow, "go_channel_buffered_ns", many.goFlow)
}

const channelBuffer = 64

func (s *session) pingPong(ctx context.Context) error {
	ping, pinged := cosync.NewChannel[int](0)
	pong, ponged := cosync.NewChannel[int](0)
	return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		n.Go(func(ctx context.Context) error {
			for range s.messages {
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
		for i := range s.messages {
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

func (s *session) goPingPong() {
	ping, pong := make(chan int), make(chan int)
	go func() {
		for range s.messages {
			pong <- <-ping
		}
	}()
	for i := range s.messages {
		ping <- i
		<-pong
	}
}

func (s *session) flow(ctx context.Context) error {
	in, out := cosync.NewChannel[int](channelBuffer)
	return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		n.Go(func(ctx context.Context) error {
			for i := range s.messages {
				if err := in.Send(ctx, i); err != nil {
					return err
				}
			}
			return nil
		})
		for range s.messages {
			if _, err := out.Receive(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *session) goFlow() {
	values := make(chan int, channelBuffer)
	go func() {
		for i := range s.messages {
			values <- i
		}
	}()
	for range s.messages {
		<-values
	}
}
