package ws_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/web"
	"github.com/spindleloop/spindle/ws"
)

// TestHandlerPanicsUnderListenAndServe: on the loops of ListenAndServe, a panicking
// handler loses its connection, the panic is logged with a readable stack, and the
// server continues.
func TestHandlerPanicsUnderListenAndServe(t *testing.T) {
	logged := make(messages, 2)
	listens := make(chan net.Addr, 1)
	h := &socketEcho{t: t, ended: make(chan error, 2)}
	h.onMessage = func(s *ws.Socket, kind ws.Kind, message []byte) { panic("no") }
	server := &web.Server{Loops: 1, ErrorLog: slog.New(logged), OnListen: func(a net.Addr) { listens <- a },
		Handler: web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.opened, h.closed = 0, 0
			ws.Upgrade(w, r, h, ws.Options{})
		}))}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.ListenAndServe(ctx, "127.0.0.1:0") }()
	address := (<-listens).String()
	for range 2 {
		p := join(t, address, ws.Options{})
		p.send(p.frame(fin|text, "x"))
		if b, err := io.ReadAll(p.br); len(b) > 0 {
			t.Errorf("%q, %v", b, err)
		}
		if err := <-h.ended; err == nil {
			t.Error("OnClose without a reason")
		}
		if text := <-logged; !strings.HasPrefix(text, "web: callback panicked: no\n") || !strings.Contains(text, "panic_test.go:") {
			t.Errorf("the log is %q", text)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// messages is a slog.Handler that passes on the text of each record.
type messages chan string

func (m messages) Enabled(context.Context, slog.Level) bool { return true }
func (m messages) Handle(_ context.Context, r slog.Record) error {
	m <- r.Message
	return nil
}
func (m messages) WithAttrs([]slog.Attr) slog.Handler { return m }
func (m messages) WithGroup(string) slog.Handler      { return m }

// TestHandlerPanics checks that the connection is closed, that OnClose is called,
// and that the loop continues if OnPanic says so.
func TestHandlerPanics(t *testing.T) {
	panics := make(chan string, 10)
	l, err := loop.New(loop.Options{Watchdog: -1, OnPanic: func(p *loop.PanicError) error {
		panics <- fmt.Sprint(p.Value)
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
		if got := <-panics; got != when {
			t.Errorf("OnPanic got %q, not %q", got, when)
		}
		if err := <-h.ended; err == nil {
			t.Error("OnClose without a reason")
		}
	}
}
