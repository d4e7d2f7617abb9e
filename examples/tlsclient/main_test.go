package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// serve runs an HTTPS server, and returns a configuration that trusts it.
func serve(t *testing.T, handler http.HandlerFunc) (url string, trusting *tls.Config) {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // it logs failed handshakes
	s.StartTLS()
	t.Cleanup(s.Close)
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return s.URL, &tls.Config{RootCAs: pool}
}

// get does what main does, without the time-out.
func get(ctx context.Context, url string, config *tls.Config) (page string, err error) {
	var out strings.Builder
	err = spindle.Run(ctx, func(ctx context.Context) error { return fetch(ctx, url, config, &out) })
	return out.String(), err
}

func TestAPageIsFetched(t *testing.T) {
	long := strings.Repeat("spindle ", 100_000)
	url, trusting := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/short":
			io.WriteString(w, "hello "+r.Host)
		case "/long": // in chunks, because the length is not set
			io.Copy(w, strings.NewReader(long))
		default:
			http.NotFound(w, r)
		}
	})
	if page, err := get(t.Context(), url+"/short", trusting); err != nil || "https://"+strings.TrimPrefix(page, "hello ") != url {
		t.Errorf("%q, %v", page, err)
	}
	if page, err := get(t.Context(), url+"/long", trusting); err != nil || page != long {
		t.Errorf("%d bytes, %v; want %d", len(page), err, len(long))
	}
	if page, err := get(t.Context(), url+"/none", trusting); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("%q, %v; want status 404", page, err)
	}
}

func TestAnUntrustedServerGetsNoRequest(t *testing.T) {
	url, trusting := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the request was sent") })
	_, err := get(t.Context(), url, &tls.Config{RootCAs: x509.NewCertPool()})
	if unknown := (x509.UnknownAuthorityError{}); !errors.As(err, &unknown) {
		t.Errorf("no authority is trusted: %v", err)
	}
	trusting.ServerName = "elsewhere.test"
	_, err = get(t.Context(), url, trusting)
	if wrong := (x509.HostnameError{}); !errors.As(err, &wrong) {
		t.Errorf("another name: %v", err)
	}
}

func TestFetchCanBeCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	url, trusting := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Write(bytes.Repeat([]byte("x"), 64<<10))
		cancel()
		<-r.Context().Done() // until the client has disconnected
	})
	if page, err := get(ctx, url, trusting); !errors.Is(err, context.Canceled) {
		t.Errorf("%d bytes, %v", len(page), err)
	}
}

func TestOnlyHTTPS(t *testing.T) {
	if _, err := get(t.Context(), "http://127.0.0.1/", nil); err == nil {
		t.Error("a plain http URL is accepted")
	}
}
