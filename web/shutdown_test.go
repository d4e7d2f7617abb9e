package web_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/tlstest"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/web"
)

// TestLoopClosedWithoutShutdown checks that requests under way end. TestMain checks that no
// goroutine is left.
func TestLoopClosedWithoutShutdown(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	begun, causes := make(chan bool, 1), make(chan error, 2)
	s := &web.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			return
		}
		begun <- true
		causes <- untilEnd(r.Context())
		_, err := w.Write(make([]byte, 100_000))
		causes <- err
	})}
	sv, err := s.Listen(l, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- l.Run(context.Background()) }()
	idle, br := dial(t, sv)
	io.WriteString(idle, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	response(t, br, "GET")
	nc, _ := dial(t, sv)
	io.WriteString(nc, "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
	<-begun
	l.Stop()
	<-ended
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-causes; err != http.ErrServerClosed {
		t.Errorf("the context ended with %v", err)
	}
	if err := <-causes; err == nil {
		t.Error("a write to a closed loop succeeded")
	}
}

// TestShutdownAfterTheLoopWasClosed checks that Shutdown returns because the service has
// ended with its loop.
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
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
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

// text answers every request with s.
func text(s string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, s) })
}

func listen(t *testing.T, network, address string) net.Listener {
	t.Helper()
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

// exchangeOn makes one request on a connection and returns the response's body. The
// connection stays open.
func exchangeOn(t *testing.T, nc net.Conn) (*http.Response, string) {
	t.Helper()
	if _, err := io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(nc), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

func connect(t *testing.T, a net.Addr) net.Conn {
	t.Helper()
	nc, err := net.Dial(a.Network(), a.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return nc
}

// isClosed fails unless the server closes the connection without sending anything.
func isClosed(t *testing.T, nc net.Conn) {
	t.Helper()
	nc.SetReadDeadline(time.Now().Add(30 * time.Second)) // before the time-out of idle connections
	if n, err := nc.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection is open: read %d, %v", n, err)
	}
}

// inherited returns a listener made from a descriptor, as a service manager passes it.
func inherited(t *testing.T, ln net.Listener) net.Listener {
	t.Helper()
	file, err := ln.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if unix, ok := ln.(*net.UnixListener); ok {
		unix.SetUnlinkOnClose(false)
	}
	ln.Close()
	own, err := net.FileListener(file)
	if err != nil {
		t.Fatal(err)
	}
	return own
}

func TestServeAcceptsOnAnInheritedListener(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		for _, loops := range []int{1, 2} {
			t.Run(network, func(t *testing.T) {
				address := "127.0.0.1:0"
				if network == "unix" {
					address = filepath.Join(t.TempDir(), "s")
				}
				ln := inherited(t, listen(t, network, address))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s := &web.Server{Handler: text("hello"), Loops: loops}
				served := make(chan error, 1)
				go func() { served <- s.Serve(ctx, ln) }()
				for range 3 {
					if _, body := exchangeOn(t, connect(t, ln.Addr())); body != "hello" {
						t.Errorf("got %q", body)
					}
				}
				cancel()
				if err := <-served; err != nil {
					t.Errorf("Serve: %v", err)
				}
				if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
					t.Errorf("the listener is open: %v", err)
				}
			})
		}
	}
}

func TestServeInATaskUsesItsLoop(t *testing.T) {
	ln := listen(t, "tcp", "127.0.0.1:0")
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		l := spindle.LoopOf(ctx)
		s := &web.Server{Handler: web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if spindle.LoopOf(r.Context()) != l {
				t.Error("served on another loop")
			}
		}))}
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error {
				if err := s.Serve(ctx, ln); err != http.ErrServerClosed {
					t.Errorf("Serve: %v", err)
				}
				return nil
			})
			_, err := spindle.Blocking(ctx, func() (string, error) { return fetch("http://" + ln.Addr().String()) })
			return errors.Join(err, s.Shutdown(ctx))
		})
	})
	if err != nil {
		t.Error(err)
	}
}

func TestServeRefusesAListenerItCannotAcceptFrom(t *testing.T) {
	inner := listen(t, "tcp", "127.0.0.1:0")
	ln := tls.NewListener(inner, &tls.Config{Certificates: []tls.Certificate{tlstest.NewAuthority().Issue("localhost")}})
	err := (&web.Server{}).Serve(t.Context(), ln)
	if err == nil || !strings.Contains(err.Error(), "set Server.TLS") {
		t.Errorf("Serve: %v", err)
	}
	if _, err := inner.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener is open: %v", err)
	}
}

// TestShutdownWaitsForRequestsUnderWay checks that idle connections are closed at once, that a
// request under way is answered, and that Serve returns after it.
func TestShutdownWaitsForRequestsUnderWay(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}), make(chan struct{})
	mux := http.NewServeMux()
	mux.Handle("/", text("hello"))
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-release
		io.WriteString(w, "at last")
	})
	s := &web.Server{Handler: mux, Loops: 2}
	ln := listen(t, "tcp", "127.0.0.1:0")
	served := make(chan error, 1)
	go func() { served <- s.Serve(t.Context(), ln) }()
	idle := connect(t, ln.Addr())
	exchangeOn(t, idle)
	slow := connect(t, ln.Addr())
	io.WriteString(slow, "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
	<-begun
	down := make(chan error, 1)
	go func() { down <- s.Shutdown(t.Context()) }()
	isClosed(t, idle)
	select {
	case err := <-served:
		t.Fatalf("Serve returned %v during a request", err)
	case err := <-down:
		t.Fatalf("Shutdown returned %v during a request", err)
	default:
	}
	close(release)
	answer, err := io.ReadAll(slow)
	if err != nil || !strings.HasSuffix(string(answer), "at last") {
		t.Errorf("answer %q, %v", answer, err)
	}
	slow.Close() // otherwise the server waits for the client to close
	if err := <-down; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if err := <-served; err != http.ErrServerClosed || !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("Serve: %v", err)
	}
}

func TestShutdownClosesConnectionsWhenItsContextEnds(t *testing.T) {
	begun, cause := make(chan struct{}), make(chan error, 1)
	s := &web.Server{Loops: 1, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
		cause <- context.Cause(r.Context())
	})}
	ln := listen(t, "tcp", "127.0.0.1:0")
	served := make(chan error, 1)
	go func() { served <- s.Serve(t.Context(), ln) }()
	nc := connect(t, ln.Addr())
	io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Shutdown(ctx); err != context.Canceled {
		t.Errorf("Shutdown: %v", err)
	}
	if err := <-cause; err != http.ErrServerClosed {
		t.Errorf("cause: %v", err)
	}
	isClosed(t, nc)
	if err := <-served; err != http.ErrServerClosed {
		t.Errorf("Serve: %v", err)
	}
}

func TestServerCloseCancelsRequestsUnderWay(t *testing.T) {
	begun, cause := make(chan struct{}), make(chan error, 1)
	s := &web.Server{Loops: 1, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
		cause <- context.Cause(r.Context())
	})}
	ln := listen(t, "tcp", "127.0.0.1:0")
	served := make(chan error, 1)
	go func() { served <- s.Serve(t.Context(), ln) }()
	nc := connect(t, ln.Addr())
	io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	<-begun
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := <-cause; err != http.ErrServerClosed {
		t.Errorf("cause: %v", err)
	}
	isClosed(t, nc)
	if err := <-served; err != http.ErrServerClosed {
		t.Errorf("Serve: %v", err)
	}
}

func TestNothingIsServedAfterShutdown(t *testing.T) {
	s := &web.Server{}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	ln := listen(t, "tcp", "127.0.0.1:0")
	if err := s.Serve(t.Context(), ln); err != http.ErrServerClosed {
		t.Errorf("Serve: %v", err)
	}
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener is open: %v", err)
	}
	if err := s.ListenAndServe(t.Context(), "127.0.0.1:0"); err != http.ErrServerClosed {
		t.Errorf("ListenAndServe: %v", err)
	}
}

// TestWorkersEndWithTheService checks that workers end while the loop continues.
func TestWorkersEndWithTheService(t *testing.T) {
	sv := serve(t, &web.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})})
	get(t, client(t), url(sv, "/"))
	if err := sv.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	buf := make([]byte, 1<<20)
	until.Holds(t, func() bool { return !strings.Contains(string(buf[:runtime.Stack(buf, true)]), "web.(*workers)") })
}

func TestShutdownOnItsLoopIsNamed(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		sv, err := (&web.Server{Handler: http.NotFoundHandler()}).Listen(spindle.LoopOf(ctx), "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		func() {
			defer func() {
				if text := fmt.Sprint(recover()); !strings.Contains(text, "Shutdown called on its loop") {
					t.Errorf("recovered %s", text)
				}
			}()
			sv.Shutdown(context.Background())
		}()
		return sv.Shutdown(ctx)
	})
}
