package web_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/web"
)

// shortGrace is the grace of runs that serve. It is over before a request is answered, and
// long enough for a busy machine to begin the drain.
const shortGrace = 200 * time.Millisecond

// realPlaces are where a server runs on the real system. Each serves until ctx ends, and
// calls onLoop with the loop of its run, if there is one.
var realPlaces = map[string]func(ctx context.Context, grace time.Duration, s *web.Server, onLoop func(*loop.Loop)) error{
	"Run": func(ctx context.Context, grace time.Duration, s *web.Server, onLoop func(*loop.Loop)) error {
		return spindle.Options{Grace: grace}.Run(ctx, func(ctx context.Context) error {
			onLoop(spindle.LoopOf(ctx))
			return s.ListenAndServe(ctx, "127.0.0.1:0")
		})
	},
	"RunOn": func(ctx context.Context, grace time.Duration, s *web.Server, onLoop func(*loop.Loop)) error {
		l, err := loop.New(loop.Options{})
		if err != nil {
			return err
		}
		onLoop(l)
		spindle.Options{Grace: grace}.RunOn(ctx, l, func(ctx context.Context) error { return s.ListenAndServe(ctx, "127.0.0.1:0") },
			func(ended error) {
				err = ended
				l.Stop()
			})
		ran := l.Run(context.Background())
		return errors.Join(ran, err, l.Close())
	},
	"one loop": func(ctx context.Context, _ time.Duration, s *web.Server, _ func(*loop.Loop)) error {
		s.Loops = 1
		return s.ListenAndServe(ctx, "127.0.0.1:0")
	},
	"two loops": func(ctx context.Context, _ time.Duration, s *web.Server, _ func(*loop.Loop)) error {
		s.Loops = 2
		return s.ListenAndServe(ctx, "127.0.0.1:0")
	},
}

// ending is a server in one of realPlaces with a request under way.
type ending struct {
	nc    net.Conn
	l     *loop.Loop // nil if there is no run
	end   func()
	ended chan error
}

func newEnding(t *testing.T, place string, grace time.Duration, s *web.Server, begun <-chan bool) *ending {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	e := &ending{end: cancel, ended: make(chan error, 1)}
	addr := make(chan net.Addr, 1)
	s.OnListen = func(a net.Addr) { addr <- a }
	go func() { e.ended <- realPlaces[place](ctx, grace, s, func(l *loop.Loop) { e.l = l }) }()
	e.nc = connect(t, <-addr)
	io.WriteString(e.nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	<-begun
	return e
}

// graceIsOver waits until the server refuses connections, and the grace of its run is over.
func (e *ending) graceIsOver() {
	for {
		nc, err := net.Dial("tcp", e.nc.RemoteAddr().String())
		if err != nil {
			break
		}
		nc.Close()
	}
	if e.l != nil {
		over := make(chan bool)
		e.l.Post(func() { e.l.CallLater(2*shortGrace, func() { close(over) }) })
		select {
		case <-over:
		case err := <-e.ended: // too early
			e.ended <- err
		}
	}
}

// endingKinds are handlers on goroutines and inline, for kinds of function h.
func endingKinds(h http.HandlerFunc) map[string]http.Handler {
	return map[string]http.Handler{"goroutine": h, "inline": web.Inline(h)}
}

// TestRequestOutlivesTheGraceOfTheRun is TestServerEndsAsItsTimesSay with handlers on
// goroutines, and with servers that run outside of tasks.
func TestRequestOutlivesTheGraceOfTheRun(t *testing.T) {
	for place := range realPlaces {
		begun, release := make(chan bool, 1), make(chan bool)
		for kind, h := range endingKinds(func(w http.ResponseWriter, r *http.Request) {
			begun <- true
			wait := func() (bool, error) { return <-release, nil }
			if spindle.Current(r.Context()) != nil {
				spindle.Blocking(r.Context(), wait)
			} else {
				wait()
			}
			if err := r.Context().Err(); err != nil {
				t.Errorf("the request's context: %v", context.Cause(r.Context()))
			}
			io.WriteString(w, "done")
		}) {
			t.Run(place+", "+kind, func(t *testing.T) {
				e := newEnding(t, place, shortGrace, &web.Server{Handler: h, DrainTimeout: time.Minute}, begun)
				e.end()
				e.graceIsOver()
				release <- true
				if got := answerOn(e.nc); got != "done" {
					t.Errorf("got %q", got)
				}
				e.nc.Close()
				if err := <-e.ended; err != nil && err != context.Canceled {
					t.Errorf("the server ended with %v", err)
				}
			})
		}
	}
}

// TestRequestIsCutAfterTheDrainTimeout checks its cause.
func TestRequestIsCutAfterTheDrainTimeout(t *testing.T) {
	for place := range realPlaces {
		begun, causes := make(chan bool, 1), make(chan error, 1)
		for kind, h := range endingKinds(func(w http.ResponseWriter, r *http.Request) {
			begun <- true
			causes <- untilEnd(r.Context())
		}) {
			t.Run(place+", "+kind, func(t *testing.T) {
				e := newEnding(t, place, time.Minute, &web.Server{Handler: h, DrainTimeout: 20 * time.Millisecond}, begun)
				e.end()
				if got := answerOn(e.nc); got != "cut" {
					t.Errorf("got %q", got)
				}
				if cause := <-causes; cause != http.ErrServerClosed {
					t.Errorf("the cause is %v", cause)
				}
				if err := <-e.ended; !errors.Is(err, web.ErrDrainTimeout) || errors.Is(err, spindle.ErrStragglers) {
					t.Errorf("the server ended with %v", err)
				}
			})
		}
	}
}

// TestDrainAnswersRequestsInTheBacklog checks that a request on a connection that was not
// accepted yet when the drain began is answered.
func TestDrainAnswersRequestsInTheBacklog(t *testing.T) {
	for name, loops := range map[string]int{"one loop": 1, "two loops": 2} {
		t.Run(name, func(t *testing.T) {
			g, err := loop.NewGroup(loops, loop.Options{})
			if err != nil {
				t.Fatal(err)
			}
			sv, err := (&web.Server{Handler: text("done"), DrainIdle: time.Minute}).ListenGroup(g, "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			var waiting []net.Conn
			for range 20 {
				nc := connect(t, sv.Addr())
				io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
				waiting = append(waiting, nc)
			}
			sv.Drain(g.Stop)
			ran := make(chan error, 1)
			go func() { ran <- g.Run(context.Background()) }()
			for _, nc := range waiting {
				res, body := response(t, bufio.NewReader(nc), "GET")
				if body != "done" || !res.Close {
					t.Errorf("got %q, close %v", body, res.Close)
				}
				nc.Close()
			}
			if err := errors.Join(<-ran, g.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}
