package web_test

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle/web"
)

// TestTakenPortIsAnError, also if the other server shares its port among loops, as
// ours do.
func TestTakenPortIsAnError(t *testing.T) {
	for _, loops := range []int{1, 2} {
		listens := make(chan net.Addr, 1)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			s := &web.Server{Loops: loops, OnListen: func(a net.Addr) { listens <- a }}
			ended <- s.ListenAndServe(ctx, "127.0.0.1:0")
		}()
		taken := (<-listens).String()
		for _, ours := range []int{1, 2} {
			second, end := context.WithCancel(t.Context())
			s := &web.Server{Loops: ours, OnListen: func(net.Addr) { end() }}
			if err := s.ListenAndServe(second, taken); !errors.Is(err, syscall.EADDRINUSE) {
				t.Errorf("%d loops beside a server with %d: %v", ours, loops, err)
			}
			end()
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
