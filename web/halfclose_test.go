package web_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/web"
)

// halfCloser is a connection whose sending side can be closed alone.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// dialHalf connects to sv, with TLS if trust is not nil.
func dialHalf(t testing.TB, sv *web.Service, trust *tls.Config) halfCloser {
	t.Helper()
	nc, err := net.Dial("tcp", sv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(10 * time.Second))
	if trust == nil {
		return nc.(*net.TCPConn)
	}
	secured := tls.Client(nc, trust)
	if err := secured.Handshake(); err != nil {
		t.Fatal(err)
	}
	return secured
}

// TestEndOfAPipelineEndsItsLastRequest: a client pipelines a slow request and one that is
// cut off, and closes its sending side while the first is answered. The second is ended
// as soon as its turn comes, by whichever handler, and nothing of it stays.
func TestEndOfAPipelineEndsItsLastRequest(t *testing.T) {
	leak.Check(t, 2<<20)
	server, trust := certified(t)
	trust = trust.Clone()
	trust.ServerName = "example.com"
	goOn := make(chan bool)
	h := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/slow":
			wait := func() (struct{}, error) { <-goOn; return struct{}{}, nil }
			if spindle.Current(r.Context()) != nil {
				spindle.Shield(r.Context(), func(ctx context.Context) error {
					_, err := spindle.Blocking(ctx, wait)
					return err
				})
			} else {
				wait()
			}
		case "/reads":
			_, err := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, err)
		}
	}
	cuts := []struct{ name, cut, want string }{
		{"body that is read", "POST /reads HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello", "200 unexpected EOF"},
		{"chunks that are read", "POST /reads HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", "200 unexpected EOF"},
		{"body that is not read", "POST /leaves HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello", "200 "},
		{"chunks that are not read", "POST /leaves HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", "200 "},
		{"lean, collected", "POST /collects HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello", ""},
		{"lean, skipped", "POST /skips HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello", "200 "},
		{"head", "GET /reads HTTP/1.1\r\nHo", "400 400 Bad Request: http1: input ends within a message"},
		{"nothing", "", ""},
	}
	for name, s := range kinds(h) {
		s.Lean = web.LeanRoutes(map[string]func(*web.LeanCtx){
			"/collects": func(c *web.LeanCtx) {
				c.ReadBody(100, func(*web.LeanCtx, []byte) { t.Error("a body that was cut off") })
			},
			"/skips": func(*web.LeanCtx) {},
			"/ping":  func(*web.LeanCtx) {},
		})
		for _, secured := range []*tls.Config{nil, trust} {
			s := &web.Server{Handler: s.Handler, Lean: s.Lean}
			if secured != nil {
				s.TLS = server
			}
			t.Run(fmt.Sprintf("%s, tls %v", name, secured != nil), func(t *testing.T) {
				sv := serve(t, s)
				other := dialHalf(t, sv, secured)
				others := bufio.NewReader(other)
				for _, tt := range cuts {
					c := dialHalf(t, sv, secured)
					io.WriteString(c, "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n"+tt.cut)
					c.CloseWrite()
					for range 3 { // the server has received the end when it answers what came behind
						io.WriteString(other, "GET /ping HTTP/1.1\r\nHost: a\r\n\r\n")
						response(t, others, "GET")
					}
					goOn <- true
					br := bufio.NewReader(c)
					response(t, br, "GET")
					if got := rest(t, br); got != tt.want {
						t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
					}
				}
			})
		}
	}
}

// rest is what else is answered on a connection, up to its end.
func rest(t testing.TB, br *bufio.Reader) string {
	t.Helper()
	var all []string
	for {
		res, err := http.ReadResponse(br, nil)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return strings.Join(all, ", ")
		}
		if err != nil {
			t.Errorf("after %q: %v", all, err)
			return strings.Join(all, ", ")
		}
		body, _ := io.ReadAll(res.Body)
		all = append(all, fmt.Sprintf("%d %s", res.StatusCode, body))
	}
}
