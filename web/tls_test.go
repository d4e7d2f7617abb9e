package web_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// certified is a server's configuration and that of a client who trusts it.
func certified(t testing.TB) (server, client *tls.Config) {
	made := httptest.NewUnstartedServer(nil)
	made.StartTLS()
	defer made.Close()
	return &tls.Config{Certificates: made.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}},
		made.Client().Transport.(*http.Transport).TLSClientConfig
}

func TestTLS(t *testing.T) {
	server, trust := certified(t)
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || r.TLS.NegotiatedProtocol != "http/1.1" || !r.TLS.HandshakeComplete {
			t.Errorf("r.TLS is %+v", r.TLS)
		}
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%d %s", len(body), r.Proto)
	}) {
		s.TLS = server
		t.Run(name, func(t *testing.T) {
			sv := serve(t, s)
			tr := &http.Transport{TLSClientConfig: trust.Clone(), ForceAttemptHTTP2: true}
			defer tr.CloseIdleConnections()
			c := &http.Client{Transport: tr}
			for range 2 {
				res, err := c.Post("https://"+sv.Addr().String(), "text/plain", strings.NewReader(strings.Repeat("x", 100_000)))
				if err != nil {
					t.Fatal(err)
				}
				if body, _ := io.ReadAll(res.Body); string(body) != "100000 HTTP/1.1" {
					t.Errorf("got %q", body)
				}
				res.Body.Close()
			}
		})
	}
}
