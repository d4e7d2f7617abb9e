package ws_test

import (
	"context"
	"net"
	"testing"

	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/ws"
)

// TestConnectWhileLoopCloses ends ctx about when the loop closes. Connect fails
// once, and Close has nothing to report.
func TestConnectWhileLoopCloses(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for i := range short.Of(1000) {
		l, err := loop.New(loop.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		failures := 0
		ws.Connect(ctx, l, "ws://"+ln.Addr().String()+"/", uncalled(t), ws.Options{OnError: func(error) { failures++ }})
		accepted := make(chan net.Conn, 1)
		go func() {
			nc, err := ln.Accept()
			if err == nil {
				nc.Read(make([]byte, 1)) // the request: the connection is open
			}
			accepted <- nc
			go cancel()
			l.Stop()
		}()
		if err := l.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		if failures != 1 {
			t.Fatalf("round %d: %d failures", i, failures)
		}
		cancel()
		(<-accepted).Close()
	}
}

// TestConnectToBadURLWhileLoopCloses checks that the failure is still reported.
func TestConnectToBadURLWhileLoopCloses(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var failures []error
	ws.Connect(t.Context(), l, "http://%", uncalled(t), ws.Options{OnError: func(err error) { failures = append(failures, err) }})
	if err := l.Close(); err != nil || len(failures) != 1 || failures[0] == nil {
		t.Errorf("Close: %v, failures %v", err, failures)
	}
}

// uncalled returns a Handler that must not be called.
func uncalled(t *testing.T) ws.Handler { return &socketEcho{t: t, ended: make(chan error, 1)} }
