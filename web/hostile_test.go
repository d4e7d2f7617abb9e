package web_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/web"
)

// hostileRequest is a request that a server must refuse.
type hostileRequest struct {
	Name, Request, Repeat string
	Times, Status         int
}

// bytes returns the request as it is sent.
func (r hostileRequest) bytes() string {
	return latin1(strings.ReplaceAll(r.Request, "{repeat}", strings.Repeat(r.Repeat, r.Times)))
}

// latin1 returns a string with a byte for each character.
func latin1(s string) string {
	b := make([]byte, 0, len(s))
	for _, r := range s {
		b = append(b, byte(r))
	}
	return string(b)
}

// hostileCases returns the cases that the Python server is tested with as well.
func hostileCases(t *testing.T) (cases struct {
	Requests []hostileRequest
	Chunks   []string
}) {
	t.Helper()
	text, err := os.ReadFile("testdata/hostile.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

// TestHostileRequestsAreRefused checks that they get the right status and the connection is
// closed, before any handler sees them.
func TestHostileRequestsAreRefused(t *testing.T) {
	leak.Check(t, 1<<20)
	sv := serve(t, &web.Server{
		MaxHeaderBytes: 4096,
		MaxBodyBytes:   100,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			t.Errorf("a handler got %s %s", r.Method, r.RequestURI)
		}),
	})
	for _, tt := range hostileCases(t).Requests {
		t.Run(tt.Name, func(t *testing.T) {
			nc, err := net.Dial("tcp", sv.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			if _, err := io.WriteString(nc, tt.bytes()); err != nil {
				t.Fatal(err)
			}
			br := bufio.NewReader(nc)
			res, err := http.ReadResponse(br, nil)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, res.Body)
			if res.StatusCode != tt.Status || !res.Close {
				t.Errorf("got %d, close %v", res.StatusCode, res.Close)
			}
			if _, err := br.ReadByte(); err != io.EOF {
				t.Errorf("the connection is not closed: %v", err)
			}
		})
	}
}

// TestBadChunksEndTheBody checks that the handler's Read fails and the connection is closed.
func TestBadChunksEndTheBody(t *testing.T) {
	leak.Check(t, 1<<20)
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err == nil {
			t.Error("the body was read")
		}
		w.WriteHeader(400)
	}) {
		s.MaxBodyBytes = 10
		sv := serve(t, s)
		for _, chunks := range hostileCases(t).Chunks {
			t.Run(name, func(t *testing.T) {
				nc, err := net.Dial("tcp", sv.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer nc.Close()
				io.WriteString(nc, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"+chunks)
				all, err := io.ReadAll(nc)
				if err != nil || !strings.HasPrefix(string(all), "HTTP/1.1 400") {
					t.Errorf("%q: got %q, %v", chunks, all, err)
				}
			})
		}
	}
}

// TestAbsoluteFormIsUnderstood checks that the target's host takes precedence over the field.
func TestAbsoluteFormIsUnderstood(t *testing.T) {
	sv := serve(t, &web.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Host+" "+r.URL.Path)
	})})
	got := raw(t, sv, "GET http://b/x HTTP/1.1\r\nHost: a\r\n\r\n", "GET")
	if got[0] != "200 b /x" {
		t.Errorf("got %q", got)
	}
}
