package web_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spindleloop/spindle/internal/deferred"
	"github.com/spindleloop/spindle/web"
)

// later is a deferred request that a test answers. Its events are lines.
type later struct {
	path   string
	answer deferred.Answer
	lc     *laterServer
	full   bool // Data pauses reading
	body   bytes.Buffer
}

type laterServer struct {
	mu     sync.Mutex
	events []string
	cond   *sync.Cond
	all    []*later
	full   bool
	post   func(func())
}

func (s *laterServer) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, fmt.Sprintf(format, args...))
	s.happened().Broadcast()
}

// happened returns the condition of another event. The caller holds mu.
func (s *laterServer) happened() *sync.Cond {
	if s.cond == nil {
		s.cond = sync.NewCond(&s.mu)
	}
	return s.cond
}

// wait waits until an event has happened.
func (s *laterServer) wait(event string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !slices.Contains(s.events, event) {
		s.happened().Wait()
	}
}

// do runs fn with the request to path, on the loop.
func (s *laterServer) do(t *testing.T, path string, fn func(*later)) {
	t.Helper()
	done := make(chan struct{})
	s.post(func() {
		defer close(done)
		for _, l := range s.all {
			if l.path == path {
				fn(l)
			}
		}
	})
	<-done
}

func (l *later) Data(p []byte) bool { l.body.Write(p); l.lc.note("%s data", l.path); return l.full }
func (l *later) End()               { l.lc.note("%s end", l.path) }
func (l *later) Failed(error)       { l.lc.note("%s failed", l.path) }
func (l *later) Gone(error)         { l.lc.note("%s gone", l.path) }
func (l *later) Lost()              { l.lc.note("%s lost", l.path) }
func (l *later) Writable()          { l.lc.note("%s writable", l.path) }

func (l *later) respond(text string, closes bool) {
	l.answer.Write(fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text))
	l.answer.Finish(closes)
}

// serveLater serves requests that are deferred.
func serveLater(t *testing.T, s *laterServer, server *web.Server) *web.Service {
	server.Lean = func(lc *web.LeanCtx) bool {
		l := &later{path: string(lc.Path()), lc: s, full: s.full}
		l.answer = lc.Defer(l)
		if got := string(l.answer.Head().Method()); got == "" {
			t.Error("no head")
		}
		l2 := lc.Conn().Loop()
		s.post = func(fn func()) { _ = l2.Post(fn) }
		s.all = append(s.all, l)
		s.note("%s head", l.path)
		return true
	}
	return serve(t, server)
}

func TestDeferredAnswersKeepTheOrderOfPipelinedRequests(t *testing.T) {
	s := &laterServer{}
	sv := serveLater(t, s, &web.Server{})
	nc, br := dial(t, sv)
	io.WriteString(nc, "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nPOST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"+
		"GET /3 HTTP/1.1\r\nHost: a\r\n\r\n")
	for _, path := range []string{"/1", "/2", "/3"} {
		s.wait(path + " end")
		s.do(t, path, func(l *later) { l.respond(l.path+l.body.String(), false) })
		want := path
		if path == "/2" {
			want += "hello"
		}
		if _, got := response(t, br, "GET"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := strings.Join(s.events, ", "); got != "/1 head, /1 end, /2 head, /2 data, /2 end, /3 head, /3 end" {
		t.Error(got)
	}
}

// TestDeferredRequestGoesToTheHandler: a lean handler looks at the head, and returns false.
func TestDeferredRequestGoesToTheHandler(t *testing.T) {
	s := &laterServer{}
	server := &web.Server{
		Lean: func(lc *web.LeanCtx) bool {
			lc.Defer(&later{path: "/", lc: s})
			return false
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }),
	}
	nc, br := dial(t, serve(t, server))
	for _, body := range []string{"first", "second"} {
		fmt.Fprintf(nc, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		if _, got := response(t, br, "POST"); got != body {
			t.Errorf("got %q, want %q", got, body)
		}
	}
	if len(s.events) > 0 {
		t.Error(s.events)
	}
}

func TestLeanHandlerPassesAValueWithItsRequest(t *testing.T) {
	server := &web.Server{
		Lean: func(lc *web.LeanCtx) bool {
			if string(lc.Path()) != "/" {
				lc.Defer(&later{}).Pass(string(lc.Path()))
			}
			return false
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, r.Context().Value(deferred.Passed))
		}),
	}
	nc, br := dial(t, serve(t, server))
	for path, want := range map[string]string{"/a": "/a", "/": "<nil>", "/b": "/b"} {
		fmt.Fprintf(nc, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path)
		if _, got := response(t, br, "GET"); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

func TestDeferredBodyIsHeldUntilItIsWanted(t *testing.T) {
	s := &laterServer{full: true}
	sv := serveLater(t, s, &web.Server{})
	nc, br := dial(t, sv)
	const size = 8 << 20
	sent := make(chan struct{})
	go func() {
		fmt.Fprintf(nc, "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", size)
		nc.Write(make([]byte, size))
		close(sent)
	}()
	s.wait("/1 data")
	s.do(t, "/1", func(l *later) {
		if l.body.Len() > 1<<20 {
			t.Errorf("%d bytes came without being wanted", l.body.Len())
		}
		l.full = false
		l.answer.Resume()
	})
	s.wait("/1 end")
	<-sent
	s.do(t, "/1", func(l *later) { l.respond(fmt.Sprint(l.body.Len()), false) })
	if _, got := response(t, br, "POST"); got != fmt.Sprint(size) {
		t.Error(got)
	}
}

func TestDeferredRequestNoticesTheEndAfterAFullBody(t *testing.T) {
	s := &laterServer{full: true}
	sv := serveLater(t, s, &web.Server{})
	nc, br := dial(t, sv)
	io.WriteString(nc, "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello")
	s.wait("/1 end")
	nc.(*net.TCPConn).CloseWrite()
	s.wait("/1 gone")
	s.do(t, "/1", func(l *later) { l.respond(l.body.String(), false) })
	if _, got := response(t, br, "POST"); got != "hello" {
		t.Errorf("got %q", got)
	}
}

func TestDeferredRequestOfAClientThatLeaves(t *testing.T) {
	s := &laterServer{}
	sv := serveLater(t, s, &web.Server{})
	nc, br := dial(t, sv)
	io.WriteString(nc, "GET /half HTTP/1.1\r\nHost: a\r\n\r\n")
	s.wait("/half end")
	nc.(*net.TCPConn).CloseWrite()
	s.wait("/half gone")
	s.do(t, "/half", func(l *later) { l.respond("still here", false) })
	if _, got := response(t, br, "GET"); got != "still here" {
		t.Errorf("got %q", got)
	}

	nc, _ = dial(t, sv)
	io.WriteString(nc, "POST /cut HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello")
	s.wait("/cut data")
	nc.(*net.TCPConn).SetLinger(0)
	nc.Close()
	s.wait("/cut failed")
	s.wait("/cut gone")
	s.wait("/cut lost")
	s.do(t, "/cut", func(l *later) { l.respond("too late", false) })
}

func TestDeferredAnswerThatCannotBeCompletedEndsTheConnection(t *testing.T) {
	s := &laterServer{}
	sv := serveLater(t, s, &web.Server{})
	nc, br := dial(t, sv)
	io.WriteString(nc, "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n")
	s.wait("/1 end")
	s.do(t, "/1", func(l *later) {
		l.answer.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"))
		l.answer.Abort()
	})
	if all, err := io.ReadAll(br); err != nil || !strings.HasSuffix(string(all), "half") {
		t.Errorf("%q, %v", all, err)
	}
}

func TestDeferredAnswerWaitsForASlowClient(t *testing.T) {
	s := &laterServer{}
	sv := serveLater(t, s, &web.Server{})
	nc, br := dial(t, sv)
	io.WriteString(nc, "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n")
	s.wait("/1 end")
	piece, n := make([]byte, 256<<10), 0
	s.do(t, "/1", func(l *later) {
		for !l.answer.Write(piece) {
			n++
		}
		n++
	})
	go io.Copy(io.Discard, io.LimitReader(br, int64(n*len(piece))))
	s.wait("/1 writable")
	s.do(t, "/1", func(l *later) { l.answer.Finish(true) })
}

func TestDeferredRequestsAreDrained(t *testing.T) {
	s := &laterServer{}
	sv := serveLater(t, s, &web.Server{})
	nc, br := dial(t, sv)
	io.WriteString(nc, "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n")
	s.wait("/1 end")
	drained := make(chan struct{})
	sv.Drain(func() { close(drained) })
	s.do(t, "/1", func(l *later) {
		if l.answer.Persists() {
			t.Error("the connection is said to persist")
		}
		l.respond("last", true)
	})
	if _, got := response(t, br, "GET"); got != "last" {
		t.Errorf("got %q", got)
	}
	nc.Close()
	<-drained
}
