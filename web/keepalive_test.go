package web_test

import (
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/spindleloop/spindle/web"
)

func TestDisabledKeepAlivesCloseEveryConnection(t *testing.T) {
	lean := func(c *web.LeanCtx) bool { c.WriteString("hello"); return true }
	for name, s := range map[string]*web.Server{
		"worker": {Handler: text("hello")},
		"inline": {Handler: web.Inline(text("hello"))},
		"lean":   {Lean: lean},
	} {
		t.Run(name, func(t *testing.T) {
			sv := serve(t, s)
			idle := connect(t, sv.Addr())
			if res, _ := exchangeOn(t, idle); res.Close {
				t.Error("closed before keep-alives were disabled")
			}
			s.SetKeepAlivesEnabled(false)
			isClosed(t, idle)
			nc := connect(t, sv.Addr())
			if res, body := exchangeOn(t, nc); !res.Close || body != "hello" {
				t.Errorf("close %v, body %q", res.Close, body)
			}
			isClosed(t, nc)
			s.SetKeepAlivesEnabled(true)
			nc = connect(t, sv.Addr())
			for range 2 {
				if res, _ := exchangeOn(t, nc); res.Close {
					t.Error("closed after keep-alives were enabled")
				}
			}
		})
	}
}

// TestKeepAlivesDisabledDuringAResponse closes a connection whose response has
// promised to keep it.
func TestKeepAlivesDisabledDuringAResponse(t *testing.T) {
	sent, release := make(chan struct{}), make(chan struct{})
	s := &web.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		close(sent)
		<-release
	})}
	sv := serve(t, s)
	nc := connect(t, sv.Addr())
	io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	<-sent
	s.SetKeepAlivesEnabled(false)
	close(release)
	if _, err := io.ReadAll(nc); err != nil {
		t.Error(err)
	}
}

func TestCloseIdleConnectionsSparesTheOthers(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	mux := http.NewServeMux()
	mux.Handle("/", text("hello"))
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-release
	})
	s := &web.Server{Handler: mux}
	sv := serve(t, s)
	idle := []net.Conn{connect(t, sv.Addr()), connect(t, sv.Addr())}
	for _, nc := range idle {
		exchangeOn(t, nc)
	}
	slow := connect(t, sv.Addr())
	io.WriteString(slow, "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
	<-begun
	s.CloseIdleConnections()
	for _, nc := range idle {
		isClosed(t, nc)
	}
	close(release)
	io.WriteString(slow, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	if answers, err := io.ReadAll(slow); err != nil || len(answers) < 200 {
		t.Errorf("%q, %v", answers, err)
	}
}
