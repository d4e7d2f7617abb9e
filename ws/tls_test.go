package ws_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/web"
	"github.com/spindleloop/spindle/ws"
)

// TestTLS dials "wss" with both kinds of client.
func TestTLS(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, err := ws.Accept(w, r, ws.Options{}); err == nil {
			echo(context.Background(), c)
		}
	}))
	defer s.Close()
	url := "wss" + strings.TrimPrefix(s.URL, "https") + "/"
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	o := ws.Options{TLS: &tls.Config{RootCAs: roots, ServerName: "example.com"}}
	t.Run("Dial", func(t *testing.T) {
		if err := spindle.Run(t.Context(), func(ctx context.Context) error {
			c, err := ws.Dial(ctx, url, o)
			if err != nil {
				return err
			}
			if err := c.Write(ctx, ws.Text, []byte("secret")); err != nil {
				return err
			}
			if _, message, err := c.Read(ctx); err != nil || string(message) != "secret" {
				t.Errorf("%q, %v", message, err)
			}
			return c.Close(1000, "")
		}); err != nil {
			t.Error(err)
		}
	})
	t.Run("Connect", func(t *testing.T) {
		ended, got := make(chan error, 1), ""
		h := &socketEcho{t: t, ended: ended, onOpen: func(s *ws.Socket) { s.Send(ws.Text, []byte("secret")) }}
		h.onMessage = func(s *ws.Socket, kind ws.Kind, message []byte) {
			got = string(message)
			s.Close(1000, "")
		}
		steady(t, func(l *loop.Loop) {
			o.OnError = func(err error) { ended <- err }
			ws.Connect(context.Background(), l, url, h, o)
		})
		if err := <-ended; codeOf(err) != 1000 || got != "secret" {
			t.Errorf("%q, %v", got, err)
		}
	})
	t.Run("unknown authority", func(t *testing.T) {
		dialBoth(t, url, ws.Options{}, func(t *testing.T, err error) {
			if err == nil || ws.CodeOf(err) != ws.AbnormalClosure {
				t.Errorf("%v", err)
			}
		}, func(*testing.T) {})
	})
}

// TestTLSServer connects both kinds of client to both kinds of server, on a
// web.Server with TLS.
func TestTLSServer(t *testing.T) {
	issuer := httptest.NewTLSServer(nil)
	defer issuer.Close()
	roots := x509.NewCertPool()
	roots.AddCert(issuer.Certificate())
	for _, compress := range []int{0, 100} {
		o := ws.Options{Subprotocols: []string{"echo"}, CompressFrom: compress}
		mux := http.NewServeMux()
		mux.Handle("/socket", web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { ws.Upgrade(w, r, plainEcho{}, o) })))
		mux.HandleFunc("/conn", func(w http.ResponseWriter, r *http.Request) {
			if c, err := ws.Accept(w, r, o); err == nil {
				echo(context.Background(), c)
			}
		})
		var sv *web.Service
		steady(t, func(l *loop.Loop) {
			var err error
			s := &web.Server{Handler: mux, TLS: &tls.Config{Certificates: issuer.TLS.Certificates}}
			if sv, err = s.Listen(l, "tcp", "127.0.0.1:0"); err != nil {
				t.Fatal(err)
			}
		})
		t.Cleanup(func() { shut(sv) })
		asClient := o
		asClient.TLS = &tls.Config{RootCAs: roots, ServerName: "example.com"}
		for _, path := range []string{"/socket", "/conn"} {
			t.Run(path, func(t *testing.T) { talkTo(t, "wss://"+sv.Addr().String()+path, asClient) })
		}
	}
}
