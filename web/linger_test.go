package web_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/web"
)

// TestEarlyRefusalReachesTheClient, also one that sends everything before it reads
// anything: the server takes what comes for a while after its last response.
func TestEarlyRefusalReachesTheClient(t *testing.T) {
	leak.Check(t, 2<<20)
	server, trust := certified(t)
	trust = trust.Clone()
	trust.ServerName = "example.com"
	for _, secured := range []*tls.Config{nil, trust} {
		s := &web.Server{
			MaxBodyBytes: 1000,
			Lean: web.LeanRoutes(map[string]func(*web.LeanCtx){
				"/collects": func(c *web.LeanCtx) { c.ReadBody(100, func(*web.LeanCtx, []byte) {}) },
			}),
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if _, err := io.Copy(io.Discard, r.Body); err != nil {
					w.WriteHeader(413)
				}
			}),
		}
		if secured != nil {
			s.TLS = server
		}
		sv := serve(t, s)
		much := strings.Repeat("x", 8<<20)
		for name, tt := range map[string]struct {
			request string
			status  int
		}{
			"declared length":    {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8388608\r\n\r\n" + much, 413},
			"chunks":             {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n800000\r\n" + much, 413},
			"header":             {"GET / HTTP/1.1\r\nHost: a\r\nX: " + much, 431},
			"bad chunk":          {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nz" + much, 413},
			"what lean collects": {"POST /collects HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3e7\r\n" + much, 413},
		} {
			t.Run(fmt.Sprintf("%s, tls %v", name, secured != nil), func(t *testing.T) {
				for range 3 {
					c := dialHalf(t, sv, secured)
					if _, err := io.WriteString(c, tt.request); err != nil {
						t.Fatal(err)
					}
					all, err := io.ReadAll(c)
					if err != nil || !strings.HasPrefix(string(all), fmt.Sprintf("HTTP/1.1 %d ", tt.status)) ||
						!strings.Contains(string(all), "Connection: close\r\n") {
						t.Fatalf("got %q, %v", all, err)
					}
					c.Close()
				}
			})
		}
	}
}
