package ws_test

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/ws"
)

// socketWith opens a server's Socket with a handler and returns its peer.
func socketWith(t *testing.T, o ws.Options, h *socketEcho) *peer {
	t.Helper()
	h.t, h.ended = t, make(chan error, 1)
	p := join(t, serveSockets(t, o, func() ws.Handler { return h }), o)
	p.ended = h.ended
	return p
}

// on runs fn on the loop and waits for it.
func on(t testing.TB, l *loop.Loop, fn func()) {
	t.Helper()
	done := make(chan bool)
	if err := l.Post(func() {
		defer close(done)
		fn()
	}); err != nil {
		t.Fatal(err)
	}
	<-done
}

// TestUpgradeWithEarlyData sends frames in one packet with the request.
func TestUpgradeWithEarlyData(t *testing.T) {
	for _, s := range []func() string{
		func() string { return serveSockets(t, ws.Options{}, func() ws.Handler { return plainEcho{} }) },
		func() string { // from a worker
			return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { ws.Upgrade(w, r, plainEcho{}, ws.Options{}) }))
		},
	} {
		address := s()
		nc, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		p := newPeer(t, nc, true)
		early := request(address, "/") + string(p.frame(fin|text, "early")) + string(p.frame(fin|ping, "?")) + string(p.frame(text, "fra"))
		if res := p.handshake(early); res.StatusCode != 101 {
			t.Fatalf("status %d", res.StatusCode)
		}
		p.wants(fin|text, "early")
		p.wants(fin|pong, "?")
		p.send(p.frame(fin|cont, "gment"))
		p.wants(fin|text, "fragment")
	}
}

// TestPauseReading checks that no message is delivered while reading is paused, not
// even one already received. All are delivered afterwards, in order.
func TestPauseReading(t *testing.T) {
	var socket *ws.Socket
	var got []string
	open := make(chan *ws.Socket, 1)
	h := &socketEcho{onOpen: func(s *ws.Socket) { open <- s }}
	h.onMessage = func(s *ws.Socket, kind ws.Kind, message []byte) {
		got = append(got, string(message))
		if string(message) == "pause" {
			s.PauseReading()
			s.PauseReading()
		}
		if string(message) == "last" {
			s.Send(ws.Text, []byte("done"))
		}
	}
	p := socketWith(t, ws.Options{}, h)
	socket = <-open
	p.send(p.frame(fin|text, "1"), p.frame(fin|text, "pause"), p.frame(fin|text, "2"), p.frame(fin|text, "pause"), p.frame(text, "la"))
	p.send(p.frame(fin|cont, "st"))
	for _, want := range []string{"1 pause", "1 pause 2 pause"} {
		until.OnLoop(t, socket.Conn().Loop(), func() bool { return strings.Join(got, " ") == want })
		on(t, socket.Conn().Loop(), func() {
			if s := strings.Join(got, " "); s != want {
				t.Errorf("got %q, want %q", s, want)
			}
			socket.ResumeReading()
			socket.ResumeReading()
		})
	}
	p.wants(fin|text, "done")
	bye(p)
}

// TestClosedSocketLeavesNoTimer covers the timers for pings and for closing.
func TestClosedSocketLeavesNoTimer(t *testing.T) {
	var l *loop.Loop
	var interval time.Duration // for the loop only
	ended := make(chan error, 1)
	address := serveSockets(t, ws.Options{}, func() ws.Handler {
		return &socketEcho{t: t, ended: ended, onOpen: func(s *ws.Socket) {
			l = s.Conn().Loop()
			s.SetPingInterval(interval)
		}}
	})
	timers := 0 // of the server
	for range 2 {
		p := join(t, address, ws.Options{})
		p.ended = ended
		bye(p)
		on(t, l, func() {
			n := l.Stats().Timers
			if interval > 0 && n > timers {
				t.Errorf("%d timers remain, %d before", n, timers)
			}
			timers, interval = n, time.Hour
		})
	}
}

// TestAbortDuringMessage checks that the next message, already received, is not
// delivered.
func TestAbortDuringMessage(t *testing.T) {
	n := 0
	h := &socketEcho{onMessage: func(s *ws.Socket, kind ws.Kind, message []byte) {
		if n++; n > 1 {
			t.Errorf("%q after Abort", message)
		}
		s.Abort()
		if err := s.Send(kind, message); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Send after Abort: %v", err)
		}
	}}
	p := socketWith(t, ws.Options{}, h)
	p.send(p.frame(fin|text, "1"), p.frame(fin|text, "2"))
	if err := p.end(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed with %v", err)
	}
}

// TestPauseAfterClose checks that pausing does not keep the peer's Close from being
// read.
func TestPauseAfterClose(t *testing.T) {
	h := &socketEcho{onMessage: func(s *ws.Socket, kind ws.Kind, message []byte) {
		s.Close(4000, "")
		s.PauseReading()
	}}
	p := socketWith(t, ws.Options{}, h)
	p.send(p.frame(fin|text, "1"))
	p.wantsCloseFrame(4000)
	p.send(p.frame(fin|clos, closePayload(4000, "")))
	p.wantsEnd()
	if err := p.end(); codeOf(err) != 4000 {
		t.Errorf("closed with %v", err)
	}
}

// TestAbortAfterResume checks that buffered messages are not delivered.
func TestAbortAfterResume(t *testing.T) {
	h := &socketEcho{}
	h.onMessage = func(s *ws.Socket, kind ws.Kind, message []byte) {
		if string(message) != "pause" {
			t.Errorf("%q after Abort", message)
		}
		s.PauseReading()
		s.Conn().Loop().CallSoon(func() {
			s.ResumeReading()
			s.Abort()
		})
	}
	p := socketWith(t, ws.Options{}, h)
	p.send(p.frame(fin|text, "pause"), p.frame(fin|text, "2"))
	if err := p.end(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed with %v", err)
	}
}

// TestCloseWhilePaused checks that the peer's Close is read although reading is
// paused.
func TestCloseWhilePaused(t *testing.T) {
	h := &socketEcho{}
	h.onMessage = func(s *ws.Socket, kind ws.Kind, message []byte) {
		s.PauseReading()
		s.Conn().Loop().CallSoon(func() {
			if err := s.Close(4000, "enough"); err != nil {
				t.Error(err)
			}
			if err := s.Close(4000, "enough"); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Close again: %v", err)
			}
			if err := s.Send(ws.Text, nil); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Send after Close: %v", err)
			}
			if err := s.Ping(nil); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Ping after Close: %v", err)
			}
		})
	}
	p := socketWith(t, ws.Options{}, h)
	p.send(p.frame(fin|text, "stop"), p.frame(fin|text, "more"), p.frame(fin|text, "and more"))
	p.wantsCloseFrame(4000)
	p.send(p.frame(fin|clos, closePayload(4000, "")))
	p.wantsEnd()
	if err := p.end(); codeOf(err) != 4000 {
		t.Errorf("closed with %v", err)
	}
}

// TestInvalidSends checks that misuse does not reach the peer.
func TestInvalidSends(t *testing.T) {
	h := &socketEcho{}
	h.onMessage = func(s *ws.Socket, kind ws.Kind, message []byte) {
		for _, code := range []ws.Code{0, 999, 1004, 1006, 1015, 2000, 5000} {
			if err := s.Close(code, ""); err == nil {
				t.Errorf("Close with %d", code)
			}
		}
		if err := s.Close(1000, strings.Repeat("x", 124)); err == nil {
			t.Error("Close with a long reason")
		}
		if err := s.Ping(make([]byte, 126)); err == nil {
			t.Error("a long ping")
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a message of no kind")
				}
			}()
			s.Send(3, nil)
		}()
		s.Send(kind, message)
	}
	p := socketWith(t, ws.Options{}, h)
	comesBack(p, text, "still here")
	bye(p)
}
