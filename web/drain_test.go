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
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/transport"
	"github.com/spindleloop/spindle/web"
)

// dial opens a connection and a reader of responses.
func dial(t testing.TB, sv *web.Service) (net.Conn, *bufio.Reader) {
	t.Helper()
	nc, err := net.Dial("tcp", sv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return nc, bufio.NewReader(nc)
}

// waitUntilRefused waits until the service accepts no connection.
func waitUntilRefused(t testing.TB, sv *web.Service) {
	t.Helper()
	until.Holds(t, func() bool {
		nc, err := net.Dial("tcp", sv.Addr().String())
		if err == nil {
			nc.Close()
		}
		return err != nil
	})
}

// TestDrainAnswersWhatIsUnderWay checks that idle connections are closed at once, new ones
// are refused, and the request under way is answered before its connection is closed.
func TestDrainAnswersWhatIsUnderWay(t *testing.T) {
	t.Parallel()
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
			nc.Close() // otherwise the server waits for the client to close
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestDrainDeadlineCancelsRequests checks the cause of requests that outlast a shutdown.
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
			if err := <-causes; err != http.ErrServerClosed {
				t.Errorf("got %v", err)
			}
		})
	}
}

// polite is a protocol that says goodbye when the server drains.
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
// the connection of a protocol that has no Draining, whether it drains before or after
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
			nc.SetReadDeadline(time.Now().Add(time.Minute))
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

// TestCloseEndsEverythingAtOnce calls Close before and after a Drain.
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
	if err := <-causes; err != http.ErrServerClosed {
		t.Errorf("got %v", err)
	}
	if _, err := br.ReadByte(); err == nil {
		t.Error("an answer")
	}
	done := make(chan bool)
	sv.Drain(func() { close(done) })
	<-done
	sv.Drain(func() {}) // once more does no harm
	if err := io.Closer(sv).Close(); err != nil {
		t.Error(err)
	}
}

// TestDrainTellsWhatIsUpgradedLater checks that a request that was under way when the server
// began to drain can still switch protocols.
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
	nc.SetReadDeadline(time.Now().Add(time.Minute))
	if all, err := io.ReadAll(br); err != nil || string(all) != "made bye" {
		t.Errorf("got %q, %v", all, err)
	}
	nc.Close()
	<-ended
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
