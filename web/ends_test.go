package web_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/web"
)

// TestLoopClosedWithoutShutdown leaves no goroutines (TestMain sees to that), and ends
// requests under way.
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
	if err := <-causes; err == nil {
		t.Error("the context ended without a cause")
	}
	if err := <-causes; err == nil {
		t.Error("a write to a closed loop succeeded")
	}
}

// TestWorkersEndWithTheService, although the loop goes on.
func TestWorkersEndWithTheService(t *testing.T) {
	sv := serve(t, &web.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})})
	get(t, client(t), url(sv, "/"))
	if err := sv.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	buf := make([]byte, 1<<20)
	for strings.Contains(string(buf[:runtime.Stack(buf, true)]), "web.(*workers)") {
		runtime.Gosched() // it is about to end; if not, the test does not either
	}
}

// TestIdlePeerThatDoesNotRead is let go, although its last response cannot be sent.
func TestIdlePeerThatDoesNotRead(t *testing.T) {
	lost := make(chan bool)
	sv := serve(t, &web.Server{
		IdleTimeout:  20 * time.Millisecond,
		WriteTimeout: 20 * time.Millisecond,
		Lean: func(c *web.LeanCtx) bool {
			c.Conn().SetWriteBuffer(4096)
			c.WriteString(strings.Repeat("x", 60<<10)) // less than the water mark
			return true
		},
	})
	nc := smallBuffered(t, sv)
	io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	io.ReadFull(nc, make([]byte, 1))
	sv.Drain(func() { close(lost) })
	<-lost
}

// TestEndedPeerThatDoesNotRead: one that has closed its side is let go as well, however
// long others may be idle.
func TestEndedPeerThatDoesNotRead(t *testing.T) {
	sv := serve(t, &web.Server{
		IdleTimeout:  -1,
		WriteTimeout: 20 * time.Millisecond,
		MaxConns:     1,
		Lean: func(c *web.LeanCtx) bool {
			if string(c.Path()) == "/" {
				c.Conn().SetWriteBuffer(4096)
				c.WriteString(strings.Repeat("x", 60<<10)) // less than the water mark
			}
			return true
		},
	})
	nc := smallBuffered(t, sv)
	io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	nc.(*net.TCPConn).CloseWrite()
	next, br := dial(t, sv) // has its turn when the first has gone
	next.SetReadDeadline(time.Now().Add(10 * time.Second))
	io.WriteString(next, "GET /next HTTP/1.1\r\nHost: a\r\n\r\n")
	response(t, br, "GET")
}

// smallBuffered is a client for whom the system receives next to nothing ahead.
func smallBuffered(t testing.TB, sv *web.Service) net.Conn {
	t.Helper()
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
	}}
	nc, err := d.Dial("tcp", sv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return nc
}

func TestUnixSocket(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "s")
	s := &web.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "unix") })}
	sv, err := s.Listen(l, "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- l.Run(context.Background()) }()
	c := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	if _, body := get(t, c, "http://unix/"); body != "unix" {
		t.Errorf("got %q", body)
	}
	c.CloseIdleConnections()
	if err := sv.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	l.Stop()
	<-ended
	l.Close()
}

func TestOptionsOfTheServerItself(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) { t.Error("the handler was asked") }) {
		t.Run(name, func(t *testing.T) {
			if got := raw(t, serve(t, s), "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS"); got[0] != "200 " {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestOptionsOfTheServerItselfReachTheHandlerIfConfigured(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.RequestURI) }) {
		if name != "worker" && name != "inline" {
			continue // an http.ServeMux answers 400
		}
		s.DisableGeneralOptionsHandler = true
		t.Run(name, func(t *testing.T) {
			if got := raw(t, serve(t, s), "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS"); got[0] != "200 *" {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestClientAsksToClose(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok") }) {
		s.Lean = web.LeanRoutes(map[string]func(*web.LeanCtx){"/lean": func(c *web.LeanCtx) { c.WriteString("ok") }})
		t.Run(name, func(t *testing.T) {
			sv := serve(t, s)
			for _, path := range []string{"/", "/lean"} {
				nc, _ := dial(t, sv)
				io.WriteString(nc, "GET "+path+" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
				all, err := io.ReadAll(nc)
				if err != nil || !strings.HasSuffix(string(all), "ok") || strings.Count(string(all), "HTTP/1.1 200") != 1 ||
					!strings.Contains(string(all), "Connection: close\r\n") {
					t.Errorf("got %q, %v", all, err)
				}
			}
		})
	}
}

// TestLastResponseThatIsNotRead: after each number of responses, so that one of them is
// the first for which there is no room. It is small, and sent only after the connection
// was closed behind it.
func TestLastResponseThatIsNotRead(t *testing.T) {
	answered := make(chan bool)
	sv := serve(t, &web.Server{
		WriteTimeout: 20 * time.Millisecond,
		Lean: func(c *web.LeanCtx) bool {
			c.Conn().SetWriteBuffer(4096)
			return false
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, strings.Repeat("x", 3800))
			answered <- true
		}),
	})
	for n := range 8 {
		nc := smallBuffered(t, sv)
		for range n {
			io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			<-answered
		}
		io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		<-answered
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := sv.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}
