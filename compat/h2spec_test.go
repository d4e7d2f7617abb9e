package compat

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/summerwind/h2spec/config"
	"github.com/summerwind/h2spec/generic"
	"github.com/summerwind/h2spec/hpack"
	"github.com/summerwind/h2spec/http2"
	"github.com/summerwind/h2spec/spec"

	"github.com/spindleloop/spindle/web"
)

// serveWeb serves h until the test ends, over TLS or with HTTP/2 on plain connections. It
// returns the address.
func serveWeb(t *testing.T, secure bool, h http.Handler) net.Addr {
	t.Helper()
	s := &web.Server{Handler: h, Protocols: new(http.Protocols), Loops: 1}
	s.Protocols.SetHTTP1(secure) // a plain port would answer a wrong preface with 400
	s.Protocols.SetHTTP2(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	if secure {
		made := httptest.NewUnstartedServer(nil)
		made.StartTLS()
		s.TLS = &tls.Config{Certificates: made.TLS.Certificates}
		made.Close()
	}
	listens := make(chan net.Addr, 1)
	s.OnListen = func(a net.Addr) { listens <- a }
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.ListenAndServe(ctx, "127.0.0.1:0") }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case a := <-listens:
		return a
	case err := <-ended:
		t.Fatal(err)
		return nil
	}
}

// TestH2spec runs all cases of h2spec against package web.
func TestH2spec(t *testing.T) {
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, "Hello, World!")
	})
	handlers := map[string]http.Handler{"goroutine": answer, "inline": web.Inline(answer)}
	for name, h := range handlers {
		for _, secure := range []bool{false, true} {
			t.Run(name+"/tls="+strconv.FormatBool(secure), func(t *testing.T) {
				addr := serveWeb(t, secure, h).(*net.TCPAddr)
				c := &config.Config{
					Host: addr.IP.String(), Port: addr.Port, Path: "/", Timeout: 5 * time.Second,
					MaxHeaderLen: 4000, Strict: true, TLS: secure, Insecure: true,
				}
				for _, group := range []*spec.TestGroup{generic.Spec(), http2.Spec(), hpack.Spec()} {
					group.Test(c)
					report(t, group)
				}
			})
		}
	}
}

// report fails the test for each case that has failed.
func report(t *testing.T, g *spec.TestGroup) {
	for _, sub := range g.Groups {
		report(t, sub)
	}
	for i, tc := range g.Tests {
		switch {
		case tc.Result == nil:
			t.Errorf("%s/%d %s: not run", g.ID(), i+1, tc.Desc)
		case tc.Result.Skipped:
			t.Logf("%s/%d %s: skipped", g.ID(), i+1, tc.Desc)
		case tc.Result.Failed:
			t.Errorf("%s/%d %s: %v", g.ID(), i+1, tc.Desc, tc.Result.Error)
		}
	}
}
