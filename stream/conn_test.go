package stream_test

import (
	"context"
	"net"
	"testing"

	"golang.org/x/net/nettest"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/stream"
)

// TestConnFromGoroutines is the standard library's idea of a net.Conn, used by
// goroutines that are no tasks.
func TestConnFromGoroutines(t *testing.T) {
	pairs, stop := make(chan chan [2]net.Conn), make(chan struct{})
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		ended <- spindle.Run(ctx, func(ctx context.Context) error {
			ln, err := stream.Listen(ctx, "tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			defer ln.Close()
			for {
				ask, err := spindle.Abandon(ctx, func() (chan [2]net.Conn, error) {
					select {
					case ask := <-pairs:
						return ask, nil
					case <-stop:
						return nil, context.Canceled
					}
				})
				if err != nil {
					return err
				}
				a, err := stream.Dial(ctx, "tcp", ln.Addr().String())
				if err != nil {
					return err
				}
				b, err := ln.Accept()
				if err != nil {
					return err
				}
				ask <- [2]net.Conn{a, b}
			}
		})
	}()
	t.Cleanup(func() {
		close(stop)
		cancel()
		<-ended
	})
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		answer := make(chan [2]net.Conn, 1)
		pairs <- answer
		pair := <-answer
		return pair[0], pair[1], func() {
			pair[0].Close()
			pair[1].Close()
		}, nil
	})
}
