package web_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/internal/deferred"
	"github.com/spindleloop/spindle/internal/http2"
	"github.com/spindleloop/spindle/web"
)

// serveLaterStreams is serveLater for streams of HTTP/2.
func serveLaterStreams(t *testing.T, s *laterServer, server *web.Server) *web.Service {
	server.Lean = func(lc *web.LeanCtx) bool {
		l := &later{path: string(lc.Path()), lc: s}
		l.answer = lc.Defer(l)
		if stream := l.answer.(deferred.Stream); l.answer.Head() != nil || stream.Header().Method == "" {
			t.Error("no head")
		}
		l2 := lc.Conn().Loop()
		s.post = func(fn func()) { _ = l2.Post(fn) }
		s.all = append(s.all, l)
		s.note("%s head", l.path)
		return true
	}
	return serve(t, plainHTTP2(server))
}

func (l *later) stream() deferred.Stream { return l.answer.(deferred.Stream) }

// respondStream is respond on a stream.
func (l *later) respondStream(text string) {
	l.stream().Respond(http2.AppendStatus(nil, 200), text == "")
	l.stream().FinishWith(false, []byte(text))
}

// TestDeferredAnswersOnStreams answers the later request first.
func TestDeferredAnswersOnStreams(t *testing.T) {
	s := &laterServer{}
	p := dialPeer(t, serveLaterStreams(t, s, &web.Server{}))
	p.send(headersFrame, endHeaders, 1, p.request("POST", "/1"))
	p.send(headersFrame, endStream|endHeaders, 3, p.request("GET", "/3"))
	s.wait("/3 end")
	s.do(t, "/3", func(l *later) { l.respondStream("") })
	if _, body := p.response(3); body != "" {
		t.Errorf("got %q", body)
	}
	p.send(dataFrame, endStream, 1, []byte("hello"))
	s.wait("/1 end")
	s.do(t, "/1", func(l *later) {
		l.stream().Consumed(l.body.Len())
		l.respondStream(l.body.String())
	})
	if _, body := p.response(1); body != "hello" {
		t.Errorf("got %q", body)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := strings.Join(s.events, ", "); got != "/1 head, /3 head, /3 end, /1 data, /1 end" {
		t.Error(got)
	}
}

func TestDeferredTrailersAndInterimResponses(t *testing.T) {
	s := &laterServer{}
	sv := serveLaterStreams(t, s, &web.Server{})
	go func() {
		s.wait("/ end")
		s.do(t, "/", func(l *later) {
			l.stream().Respond(http2.AppendStatus(nil, 103), false)
			l.stream().Respond(http2.AppendStatus(nil, 201), false)
			l.answer.Write([]byte("bo"), []byte("dy"))
			block, _ := http2.AppendField(nil, "X-Sum", "4")
			l.stream().Trail(block)
			l.answer.Finish(false)
		})
	}()
	res, err := clientHTTP2(t).Get(url(sv, "/"))
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(res.Body); string(body) != "body" || err != nil || res.StatusCode != 201 || res.Trailer.Get("X-Sum") != "4" {
		t.Errorf("got %q, %v, %v, %v", body, err, res.Status, res.Trailer)
	}
}

// TestDeferredStreamIsReset: the handler is told once, and nothing after that.
func TestDeferredStreamIsReset(t *testing.T) {
	s := &laterServer{}
	p := dialPeer(t, serveLaterStreams(t, s, &web.Server{}))
	p.send(headersFrame, endHeaders, 1, p.request("POST", "/1"))
	s.wait("/1 head")
	p.send(resetFrame, 0, 1, number(8))
	s.wait("/1 lost")
	s.do(t, "/1", func(l *later) { l.respondStream("too late") })
	p.send(headersFrame, endStream|endHeaders, 3, p.request("GET", "/3"))
	s.wait("/3 end")
	s.do(t, "/3", func(l *later) { l.answer.Abort() })
	if f := p.until(resetFrame); f.id != 3 || f.code() != http2.InternalError {
		t.Errorf("got %+v", f)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := strings.Join(s.events, ", "); got != "/1 head, /1 gone, /1 lost, /3 head, /3 end" {
		t.Error(got)
	}
}

// TestDeferredStreamsCountUntilTheyAreFinished: resets do not make room for more handlers.
func TestDeferredStreamsCountUntilTheyAreFinished(t *testing.T) {
	s := &laterServer{}
	p := dialPeer(t, serveLaterStreams(t, s, &web.Server{HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 2}}))
	for id := uint32(1); id <= 3; id += 2 {
		p.send(headersFrame, endStream|endHeaders, id, p.request("GET", "/"+string(rune('0'+id))))
		p.send(resetFrame, 0, id, number(8))
	}
	s.wait("/3 lost")
	p.send(headersFrame, endStream|endHeaders, 5, p.request("GET", "/5"))
	if f := p.until(resetFrame); f.id != 5 || f.code() != http2.RefusedStream {
		t.Errorf("got %+v", f)
	}
	s.do(t, "/1", func(l *later) { l.answer.Abort() })
	p.send(headersFrame, endStream|endHeaders, 7, p.request("GET", "/7"))
	s.wait("/7 end")
}

// TestDeferredStreamWaitsForTheWindow: the client's window is used up, and then opened.
func TestDeferredStreamWaitsForTheWindow(t *testing.T) {
	s := &laterServer{}
	p := dialPeer(t, serveLaterStreams(t, s, &web.Server{}))
	p.send(headersFrame, endStream|endHeaders, 1, p.request("GET", "/1"))
	s.wait("/1 end")
	large := make([]byte, 400<<10)
	s.do(t, "/1", func(l *later) {
		l.stream().Respond(http2.AppendStatus(nil, 200), false)
		if !l.answer.Write(large) {
			t.Error("the handler need not wait")
		}
	})
	p.send(windowFrame, 0, 0, number(1<<20))
	p.send(windowFrame, 0, 1, number(1<<20))
	s.wait("/1 writable")
	s.do(t, "/1", func(l *later) { l.answer.Finish(false) })
	if _, body := p.response(1); len(body) != len(large) {
		t.Errorf("got %d bytes", len(body))
	}
}

func TestDeferredFileOnAStream(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	content := strings.Repeat("0123456789", 100_000)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &laterServer{}
	sv := serveLaterStreams(t, s, &web.Server{})
	send := func(l *later, size int) {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		l.stream().Respond(http2.AppendStatus(nil, 200), false)
		l.answer.SendFile(f, 0, int64(size), func(error) { f.Close(); l.lc.note("%s sent", l.path) })
		l.answer.Finish(false)
	}
	for _, path := range []string{"/whole", "/too-short"} {
		size := len(content)
		if path == "/too-short" {
			size++ // than was announced
		}
		go func() {
			s.wait(path + " end")
			s.do(t, path, func(l *later) { send(l, size) })
		}()
		res, err := clientHTTP2(t).Get(url(sv, path))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if want := size == len(content); (err == nil) != want || want && string(body) != content {
			t.Errorf("%s: got %d bytes, %v", path, len(body), err)
		}
		s.wait(path + " sent")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.events, "/whole lost") {
		t.Error(s.events)
	}
}

// TestDeferredBodiesOnStreamsAreLimited: the handler answers, and the connection goes on.
func TestDeferredBodiesOnStreamsAreLimited(t *testing.T) {
	s := &laterServer{}
	p := dialPeer(t, serveLaterStreams(t, s, &web.Server{MaxBodyBytes: 10}))
	p.send(headersFrame, endHeaders, 1, p.request("POST", "/1"))
	p.send(dataFrame, 0, 1, make([]byte, 20))
	s.wait("/1 failed")
	s.do(t, "/1", func(l *later) { l.respondStream("too long") })
	if _, body := p.response(1); body != "too long" {
		t.Errorf("got %q", body)
	}
}
