package web_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/web"
)

// states records what ConnState is called with.
type states struct {
	mu    sync.Mutex
	conns map[net.Conn][]http.ConnState
	ended chan []http.ConnState
}

func newStates() *states {
	return &states{conns: map[net.Conn][]http.ConnState{}, ended: make(chan []http.ConnState, 10)}
}

func (s *states) record(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c] = append(s.conns[c], state)
	if state == http.StateClosed || state == http.StateHijacked {
		s.ended <- s.conns[c]
	}
}

func TestConnStateFollowsAConnection(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hijack" {
			nc, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			nc.Close()
		}
	})
	get := func(path, fields string) string { return "GET " + path + " HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n" }
	const created, active, idle, hijacked, closed = http.StateNew, http.StateActive, http.StateIdle, http.StateHijacked, http.StateClosed
	for _, c := range []struct {
		name     string
		requests []string
		want     []http.ConnState
	}{
		{"nothing is sent", nil, []http.ConnState{created, closed}},
		{"one request that closes", []string{get("/", "Connection: close\r\n")}, []http.ConnState{created, active, closed}},
		{"two requests", []string{get("/", ""), get("/", "")}, []http.ConnState{created, active, idle, active, idle, closed}},
		{"a malformed request", []string{"\x00\r\n\r\n"}, []http.ConnState{created, active, closed}},
		{"a hijacked connection", []string{get("/hijack", "")}, []http.ConnState{created, active, hijacked}},
	} {
		for name, h := range map[string]http.Handler{"worker": handler, "inline": web.Inline(handler)} {
			t.Run(c.name+" "+name, func(t *testing.T) {
				seen := newStates()
				sv := serve(t, &web.Server{Handler: h, ConnState: seen.record})
				nc := connect(t, sv.Addr())
				buf := make([]byte, 4096)
				for _, request := range c.requests {
					io.WriteString(nc, request)
					nc.Read(buf)
				}
				nc.Close()
				if got := <-seen.ended; !slices.Equal(got, c.want) {
					t.Errorf("states %v, want %v", got, c.want)
				}
			})
		}
	}
}

// TestConnStateMayCloseTheConnection refuses a client by its address.
func TestConnStateMayCloseTheConnection(t *testing.T) {
	seen := newStates()
	sv := serve(t, &web.Server{Handler: text("hello"), ConnState: func(c net.Conn, state http.ConnState) {
		seen.record(c, state)
		if state == http.StateNew && strings.HasPrefix(c.RemoteAddr().String(), "127.") {
			c.Close()
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("Read: %v", err)
		}
	}})
	isClosed(t, connect(t, sv.Addr()))
	if got := <-seen.ended; !slices.Equal(got, []http.ConnState{http.StateNew, http.StateClosed}) {
		t.Errorf("states %v", got)
	}
}

// TestConnCloseUnderALockThatConnStateTakes closes a connection as a tracker of
// connections does, on a goroutine and in the hook: with its lock held.
func TestConnCloseUnderALockThatConnStateTakes(t *testing.T) {
	var mu sync.Mutex
	conns := map[net.Conn]bool{}
	idle, locked, ended := make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)
	sv := serve(t, &web.Server{Handler: text("hello"), ConnState: func(c net.Conn, state http.ConnState) {
		if state == http.StateIdle {
			close(idle)
			<-locked // then the loop waits for the lock
		}
		mu.Lock()
		defer mu.Unlock()
		switch state {
		case http.StateNew:
			conns[c] = true
		case http.StateIdle:
			c.Close()
		case http.StateClosed:
			delete(conns, c)
			ended <- struct{}{}
		}
	}})
	nc := connect(t, sv.Addr())
	io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	<-idle
	mu.Lock()
	close(locked)
	for c := range conns {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	mu.Unlock()
	<-ended
}

type key string

// TestRequestsDeriveFromBaseAndConnContext looks up values of both contexts in every kind of
// handler, and ends the base context.
func TestRequestsDeriveFromBaseAndConnContext(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		if ctx.Value(key("base")) != "b" || ctx.Value(key("conn")) != "c" || ctx.Value(key("none")) != nil {
			t.Errorf("values %v, %v", ctx.Value(key("base")), ctx.Value(key("conn")))
		}
		if _, ok := ctx.Value(http.LocalAddrContextKey).(net.Addr); !ok {
			t.Error("no local address")
		}
		if r.URL.Path == "/wait" {
			w.(http.Flusher).Flush()
			if spindle.Current(ctx) != nil {
				if err := spindle.Sleep(ctx, time.Hour); !errors.Is(err, context.Canceled) {
					t.Errorf("woken by %v", err)
				}
			} else {
				<-ctx.Done()
			}
			if ctx.Err() == nil || context.Cause(ctx) != errEnough {
				t.Errorf("ended by %v, %v", ctx.Err(), context.Cause(ctx))
			}
		}
	}) {
		t.Run(name, func(t *testing.T) {
			base, cancel := context.WithCancelCause(context.WithValue(context.Background(), key("base"), "b"))
			defer cancel(nil)
			var listener net.Listener
			s.BaseContext = func(ln net.Listener) context.Context {
				listener = ln
				return base
			}
			s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
				if ctx != base || c.RemoteAddr() == nil || c.LocalAddr().String() != listener.Addr().String() {
					t.Errorf("called with %v, %v", ctx, c)
				}
				return context.WithValue(ctx, key("conn"), "c")
			}
			sv := serve(t, s)
			if listener == nil || listener.Addr().String() != sv.Addr().String() {
				t.Errorf("BaseContext was called with %v", listener)
			}
			exchangeOn(t, connect(t, sv.Addr()))
			nc := connect(t, sv.Addr())
			io.WriteString(nc, "GET /wait HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
			nc.Read(make([]byte, 100))
			cancel(errEnough)
			io.Copy(io.Discard, nc)
		})
	}
}

var errEnough = errors.New("enough")

func TestNilBaseContextPanics(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	defer func() {
		if v, _ := recover().(string); v != "web: BaseContext returned a nil context" {
			t.Errorf("panic %q", v)
		}
	}()
	s := &web.Server{BaseContext: func(net.Listener) context.Context { return nil }}
	s.Listen(l, "tcp", "127.0.0.1:0")
}
