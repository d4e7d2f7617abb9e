package ws_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/web"
	"github.com/spindleloop/spindle/ws"
)

// socketWith opens a server's Socket with a handler, and its peer.
func socketWith(t *testing.T, o ws.Options, h *socketEcho) *peer {
	t.Helper()
	h.t, h.ended = t, make(chan error, 1)
	p := join(t, serveSockets(t, o, func() ws.Handler { return h }), o)
	p.ended = h.ended
	return p
}

// on runs fn on the loop of a Socket and waits for it.
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

// TestUpgradeWithEarlyData: frames that come in one packet with the request.
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

// TestPauseReading: no message comes while reading is paused, not even one that is
// here already; all come afterwards, in order.
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
		until(t, socket.Loop(), func() bool { return strings.Join(got, " ") == want })
		on(t, socket.Loop(), func() {
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

// until waits for a condition of the loop's, turn after turn.
func until(t testing.TB, l *loop.Loop, condition func() bool) {
	t.Helper()
	done := make(chan bool)
	var look func()
	look = func() {
		if condition() {
			close(done)
			return
		}
		l.CallLater(1e6, look)
	}
	if err := l.Post(look); err != nil {
		t.Fatal(err)
	}
	<-done
}

// TestCloseWhilePaused: the peer's Close is read although nobody wants messages.
func TestCloseWhilePaused(t *testing.T) {
	h := &socketEcho{}
	h.onMessage = func(s *ws.Socket, kind ws.Kind, message []byte) {
		s.PauseReading()
		s.Loop().CallSoon(func() {
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
		t.Errorf("it ended with %v", err)
	}
}

// TestSlowPeers: what waits for a peer that does not read is bounded. It is cut off,
// or messages are dropped, as the options have it.
func TestSlowPeers(t *testing.T) {
	const limit = 256 << 10
	message := make([]byte, 8<<10)
	t.Run("cut off", func(t *testing.T) {
		h := &socketEcho{onMessage: func(s *ws.Socket, kind ws.Kind, _ []byte) {
			for range 100_000 { // far beyond what sockets hold
				if err := s.Send(ws.Binary, message); err != nil {
					if err != ws.ErrSlow {
						t.Errorf("Send: %v", err)
					}
					return
				}
				if s.Unsent() > limit+len(message)+100 {
					t.Errorf("%d bytes wait", s.Unsent())
				}
			}
			t.Error("never too slow")
		}}
		p := socketWith(t, ws.Options{UnsentLimit: limit}, h)
		p.send(p.frame(fin|text, "go"))
		if err := p.end(); err != ws.ErrSlow {
			t.Errorf("it ended with %v", err)
		}
	})
	t.Run("drop", func(t *testing.T) {
		sent := 0
		h := &socketEcho{onMessage: func(s *ws.Socket, kind ws.Kind, _ []byte) {
			for s.Send(ws.Binary, message) == nil {
				sent++
			}
			if err := s.Send(ws.Binary, message); err != ws.ErrSlow || s.Unsent() > limit+len(message)+100 {
				t.Errorf("Send: %v, %d bytes wait", err, s.Unsent())
			}
		}}
		open, drained := make(chan *ws.Socket, 1), make(chan *ws.Socket, 1)
		h.onOpen = func(s *ws.Socket) { open <- s }
		p := drainingSocket(t, ws.Options{UnsentLimit: limit, Slow: ws.Drop}, h, drained)
		p.send(p.frame(fin|text, "go"))
		s := <-open
		until(t, s.Loop(), s.Full)
		p.send(p.frame(fin|ping, "waits"), p.frame(fin|ping, "too"))
		for first, n := byte(0), 0; first != fin|pong; n++ { // the last ping is answered, behind all messages
			f, payload, err := p.read()
			if err != nil {
				t.Fatal(err)
			}
			if first = f; f == fin|pong && (payload != "too" || n != sent) {
				t.Errorf("a pong with %q behind %d messages of %d", payload, n, sent)
			}
		}
		<-drained
		on(t, s.Loop(), func() {
			if s.Full() {
				t.Error("full after OnDrain")
			}
		})
		bye(p)
	})
}

// draining is a Handler that is also a Drainer.
type draining struct {
	*socketEcho
	drained chan *ws.Socket
}

func (d draining) OnDrain(s *ws.Socket) { d.drained <- s }

func drainingSocket(t *testing.T, o ws.Options, h *socketEcho, drained chan *ws.Socket) *peer {
	t.Helper()
	h.t, h.ended = t, make(chan error, 1)
	p := join(t, serveSockets(t, o, func() ws.Handler { return draining{h, drained} }), o)
	p.ended = h.ended
	return p
}

// TestPrepared: one message for plain, compressing and small-windowed clients, of
// each size.
func TestPrepared(t *testing.T) {
	var all []*ws.Socket
	ready := make(chan bool)
	o := ws.Options{CompressFrom: 100}
	address := serveSockets(t, o, func() ws.Handler {
		return &socketEcho{t: t, ended: make(chan error, 1), onOpen: func(s *ws.Socket) {
			if all = append(all, s); len(all) == 3 {
				close(ready)
			}
		}}
	})
	packed := join(t, address, o)
	plain := join(t, address, ws.Options{})
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	small := newPeer(t, nc, true)
	small.handshake(request(address, "/", "Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits=9"))
	<-ready
	for _, n := range []int{0, 5, 99, 100, 5000, 100_000} {
		message := large(n)
		lent := []byte(message)
		m := ws.Prepare(ws.Text, lent)
		clear(lent) // it is ours again
		on(t, all[0].Loop(), func() {
			for range 2 {
				for _, s := range all {
					if err := s.SendPrepared(m); err != nil {
						t.Error(err)
					}
				}
			}
		})
		for range 2 {
			plain.wants(fin|text, message)
			if n < 100 {
				packed.wants(fin|text, message)
				small.wants(fin|text, message)
			} else {
				packed.wantsPacked(fin|text, message)
				small.wantsPacked(fin|text, message)
			}
		}
	}
}

// TestHandlersThatPanic lose their connection, are told of its end, and the loop goes
// on if it is told to.
func TestHandlersThatPanic(t *testing.T) {
	told := make(chan string, 10)
	l, err := loop.New(loop.Options{Watchdog: -1, OnPanic: func(p *loop.PanicError) error {
		told <- fmt.Sprint(p.Value)
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	h := &socketEcho{t: t, ended: make(chan error, 1)}
	h.onMessage = func(s *ws.Socket, kind ws.Kind, message []byte) {
		if s.PauseReading(); string(message) == "later" {
			s.ResumeReading()
			h.onMessage = func(*ws.Socket, ws.Kind, []byte) { panic("later") }
			return
		}
		panic("at once")
	}
	sv, err := (&web.Server{Handler: web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.opened, h.closed = 0, 0
		ws.Upgrade(w, r, h, ws.Options{})
	}))}).Listen(l, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- l.Run(t.Context()) }()
	defer func() {
		l.Stop()
		<-done
		l.Close()
	}()
	for _, when := range []string{"at once", "later"} {
		p := join(t, sv.Addr().String(), ws.Options{})
		p.send(p.frame(fin|text, when), p.frame(fin|text, "x"))
		if b, err := io.ReadAll(p.br); len(b) > 0 {
			t.Errorf("%q, %v", b, err)
		}
		if got := <-told; got != when {
			t.Errorf("OnPanic was told of %q, not %q", got, when)
		}
		if err := <-h.ended; err == nil {
			t.Error("no reason")
		}
	}
}

// TestWhatMayNotBeSent: misuse does not reach the peer.
func TestWhatMayNotBeSent(t *testing.T) {
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
