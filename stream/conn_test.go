package stream_test

import (
	"context"
	"net"
	"testing"

	"golang.org/x/net/nettest"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
)

// TestConnFromGoroutines runs the standard library's tests for a net.Conn, from
// goroutines that are not tasks.
func TestConnFromGoroutines(t *testing.T) {
	for _, where := range []struct{ backend, network string }{{"", "tcp"}, {"", "unix"}, {"poll", "tcp"}} {
		if testing.Short() && (where.backend != "" || where.network != "tcp") {
			continue
		}
		t.Run(where.backend+where.network, func(t *testing.T) {
			t.Parallel() // it waits for many deadlines
			conform(t, where.backend, where.network)
		})
	}
}

func conform(t *testing.T, backend, network string) {
	pairs, stop := make(chan chan [2]net.Conn), make(chan struct{})
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	o := spindle.Options{Loop: loop.Options{Backend: backend}}
	go func() {
		ended <- o.Run(ctx, func(ctx context.Context) error {
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
				a, b := pair(t, ctx, network)
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
