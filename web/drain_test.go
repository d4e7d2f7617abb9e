package web_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
	"github.com/spindleloop/spindle/web"
)

// TestDrainAnswersWhatIsUnderWay: idle connections end at once, new ones are refused,
// the request under way is answered, and its connection closed.
func TestDrainAnswersWhatIsUnderWay(t *testing.T) {
	begun, goOn := make(chan bool), make(chan bool)
	h := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/slow" {
			return
		}
		wait := func() (struct{}, error) { begun <- true; <-goOn; return struct{}{}, nil }
		if spindle.Current(r.Context()) != nil {
			spindle.Blocking(r.Context(), wait)
		} else {
			wait()
		}
		io.WriteString(w, "done")
	}
	for name, s := range kinds(h) {
		t.Run(name, func(t *testing.T) {
			sv := serve(t, s)
			idle, idleReader := dial(t, sv)
			io.WriteString(idle, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			response(t, idleReader, "GET")
			nc, br := dial(t, sv)
			io.WriteString(nc, "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
			<-begun
			ended := make(chan error, 1)
			go func() { ended <- sv.Shutdown(context.Background()) }()
			if _, err := idleReader.ReadByte(); err != io.EOF {
				t.Errorf("the idle connection: %v", err)
			}
			if _, err := net.Dial("tcp", sv.Addr().String()); err == nil {
				t.Error("a new connection is accepted")
			}
			goOn <- true
			if res, body := response(t, br, "GET"); body != "done" || !res.Close {
				t.Errorf("got %q, close %v", body, res.Close)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestDrainDeadlineCancelsRequests with a cause that tells why.
func TestDrainDeadlineCancelsRequests(t *testing.T) {
	begun := make(chan bool, 1)
	causes := make(chan error, 1)
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		begun <- true
		causes <- untilEnd(r.Context())
	}) {
		t.Run(name, func(t *testing.T) {
			sv := serve(t, s)
			nc, _ := dial(t, sv)
			io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			<-begun
			ctx, cancel := context.WithTimeoutCause(context.Background(), 10*time.Millisecond, errors.New("enough"))
			defer cancel()
			if err := sv.Shutdown(ctx); err == nil || err.Error() != "enough" {
				t.Errorf("shutdown: %v", err)
			}
			if err := <-causes; err != web.ErrServerClosed {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestListenAndServeUntilTheContextEnds(t *testing.T) {
	var order []string
	s := &web.Server{
		Loops:      2,
		Handler:    http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok") }),
		OnStart:    func(context.Context) error { order = append(order, "start"); return nil },
		OnShutdown: func(context.Context) error { order = append(order, "shutdown"); return nil },
	}
	listens := make(chan net.Addr, 1)
	s.OnListen = func(a net.Addr) {
		order = append(order, "listen")
		listens <- a
	}
	const address = "localhost:0" // names are looked up
	for name, run := range map[string]func(context.Context) error{
		"alone": func(ctx context.Context) error { return s.ListenAndServe(ctx, address) },
		"beside tasks": func(ctx context.Context) error {
			return spindle.Run(ctx, func(ctx context.Context) error { return s.ListenAndServe(ctx, address) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			order = nil
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- run(ctx) }()
			if _, body := get(t, client(t), "http://"+(<-listens).String()); body != "ok" {
				t.Errorf("got %q", body)
			}
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("got %v", err)
			}
			if fmt.Sprint(order) != "[start listen shutdown]" {
				t.Errorf("order %v", order)
			}
		})
	}
}

func TestListenErrorsAreTold(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if err := (&web.Server{}).ListenAndServe(t.Context(), ln.Addr().String()); err == nil {
		t.Error("a port that is taken was taken")
	}
	no := errors.New("no")
	s := &web.Server{OnStart: func(context.Context) error { return no }}
	if err := s.ListenAndServe(t.Context(), "127.0.0.1:0"); !errors.Is(err, no) {
		t.Errorf("OnStart: %v", err)
	}
}

// TestGroupServesOnAllLoops, with handlers of every kind.
func TestGroupServesOnAllLoops(t *testing.T) {
	g, err := loop.NewGroup(3, loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/worker", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "worker") })
	mux.Handle("/inline", web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "inline") })))
	s := &web.Server{Handler: mux, Lean: web.LeanRoutes(map[string]func(*web.LeanCtx){"/lean": func(c *web.LeanCtx) { c.WriteString("lean") }})}
	sv, err := s.ListenGroup(g, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- g.Run(context.Background()) }()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			c := client(t)
			defer c.CloseIdleConnections()
			for range 5 {
				for _, kind := range []string{"worker", "inline", "lean"} {
					res, err := c.Get(url(sv, "/"+kind))
					if err != nil {
						t.Error(err)
						return
					}
					if body, _ := io.ReadAll(res.Body); string(body) != kind {
						t.Errorf("got %q", body)
					}
					res.Body.Close()
				}
			}
		})
	}
	all.Wait()
	if err := sv.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	g.Stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}

// polite is a protocol that says good-bye when the server drains.
type polite struct{ shout }

func (polite) Draining(c *transport.Conn) {
	c.Write([]byte("bye"))
	c.Close()
}

func TestDrainTellsUpgradedConnections(t *testing.T) {
	lost := make(chan error, 1)
	sv := serve(t, &web.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := web.Upgrade(w, r, nil, polite{shout{lost}}); err != nil {
			t.Error(err)
		}
	})})
	nc, br := dial(t, sv)
	io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: shout\r\n\r\n")
	if _, err := http.ReadResponse(br, nil); err != nil {
		t.Fatal(err)
	}
	io.ReadFull(br, make([]byte, len("made ")))
	if err := sv.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if all, err := io.ReadAll(br); err != nil || string(all) != "bye" {
		t.Errorf("got %q, %v", all, err)
	}
}

// TestDrainDoesNotWaitForOtherProtocols checks that the server neither waits for nor closes
// the connection of a protocol that is not a Drainer, whether it drains before or after
// the upgrade.
func TestDrainDoesNotWaitForOtherProtocols(t *testing.T) {
	for name, drainsFirst := range map[string]bool{"upgraded": false, "upgraded while draining": true} {
		t.Run(name, func(t *testing.T) {
			lost, begun, goOn := make(chan error, 1), make(chan bool), make(chan bool)
			sv := serve(t, &web.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				begun <- true
				<-goOn
				if err := web.Upgrade(w, r, nil, shout{lost}); err != nil {
					t.Error(err)
				}
			})})
			idle, _ := dial(t, sv)
			nc, br := dial(t, sv)
			nc.SetReadDeadline(time.Now().Add(10 * time.Second))
			io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: shout\r\n\r\n")
			<-begun
			ended := make(chan bool)
			if drainsFirst {
				sv.Drain(func() { close(ended) })
				idle.Read(make([]byte, 1)) // fails when the server drains
			}
			close(goOn)
			if _, err := http.ReadResponse(br, nil); err != nil {
				t.Fatal(err)
			}
			made := make([]byte, len("made "))
			if _, err := io.ReadFull(br, made); err != nil {
				t.Fatal(err)
			}
			if !drainsFirst {
				sv.Drain(func() { close(ended) })
			}
			<-ended
			io.WriteString(nc, "a")
			if b, err := br.ReadByte(); err != nil || b != 'a' {
				t.Errorf("after the drain: %q, %v, want 'a'", b, err)
			}
			nc.Close()
			<-lost
		})
	}
}

// TestCloseEndsEverythingAtOnce, before and after a Drain.
func TestCloseEndsEverythingAtOnce(t *testing.T) {
	begun := make(chan bool, 1)
	causes := make(chan error, 1)
	sv := serve(t, &web.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun <- true
		causes <- untilEnd(r.Context())
	})})
	nc, br := dial(t, sv)
	io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	<-begun
	sv.Close()
	if err := <-causes; err != web.ErrServerClosed {
		t.Errorf("got %v", err)
	}
	if _, err := br.ReadByte(); err == nil {
		t.Error("an answer")
	}
	done := make(chan bool)
	sv.Drain(func() { close(done) })
	<-done
	sv.Drain(func() {}) // once more does no harm
	sv.Close()
}

// TestDrainTellsWhatIsUpgradedLater: a request that was under way when the server began
// to drain may still switch protocols.
func TestDrainTellsWhatIsUpgradedLater(t *testing.T) {
	begun, goOn := make(chan bool), make(chan bool)
	lost := make(chan error, 1)
	sv := serve(t, &web.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun <- true
		<-goOn
		if err := web.Upgrade(w, r, nil, polite{shout{lost}}); err != nil {
			t.Error(err)
		}
	})})
	idle, _ := dial(t, sv)
	nc, br := dial(t, sv)
	io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: shout\r\n\r\n")
	<-begun
	ended := make(chan bool)
	sv.Drain(func() { close(ended) })
	idle.Read(make([]byte, 1)) // its end: the server drains
	goOn <- true
	if _, err := http.ReadResponse(br, nil); err != nil {
		t.Fatal(err)
	}
	nc.SetReadDeadline(time.Now().Add(10 * time.Second))
	if all, err := io.ReadAll(br); err != nil || string(all) != "made bye" {
		t.Errorf("got %q, %v", all, err)
	}
	nc.Close()
	<-ended
}

// TestShutdownAfterTheLoopWasClosed: the service has ended with its loop, whether it had
// connections or not, and Shutdown returns.
func TestShutdownAfterTheLoopWasClosed(t *testing.T) {
	for _, requests := range []int{0, 1} {
		t.Run(fmt.Sprint(requests, " requests"), func(t *testing.T) {
			l, err := loop.New(loop.Options{})
			if err != nil {
				t.Fatal(err)
			}
			s := &web.Server{Handler: text("hello")}
			sv, err := s.Listen(l, "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ran := make(chan error, 1)
			go func() { ran <- l.Run(context.Background()) }()
			for range requests {
				exchangeOn(t, connect(t, sv.Addr()))
			}
			l.Stop()
			if err := errors.Join(<-ran, l.Close()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if err := sv.Shutdown(ctx); err != nil {
				t.Errorf("Service.Shutdown: %v", err)
			}
			if err := s.Shutdown(ctx); err != nil {
				t.Errorf("Server.Shutdown: %v", err)
			}
		})
	}
}

// TestEndedServiceHasNoLoopState: a loop that outlives its services does not keep them.
func TestEndedServiceHasNoLoopState(t *testing.T) {
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		l := spindle.LoopOf(ctx)
		sv, err := (&web.Server{Handler: http.NotFoundHandler()}).Listen(l, "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		if !web.HasLoopState(sv, l) {
			t.Error("a service has no state")
		}
		if err := sv.Shutdown(ctx); err != nil {
			return err
		}
		if web.HasLoopState(sv, l) {
			t.Error("a service that has ended still has state")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
