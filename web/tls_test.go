package web_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle/web"
)

// certified returns the configuration of a server, and of a client that trusts it.
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
		s.TLS, s.Protocols = server, new(http.Protocols)
		s.Protocols.SetHTTP1(true)
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

// TestHeaderTimeoutLimitsTheHandshake disconnects a client that never begins it.
func TestHeaderTimeoutLimitsTheHandshake(t *testing.T) {
	server, _ := certified(t)
	sv := serve(t, &web.Server{TLS: server, HeaderTimeout: 10 * time.Millisecond, ErrorLog: slog.New(slog.DiscardHandler)})
	nc := connect(t, sv.Addr())
	nc.SetReadDeadline(time.Now().Add(5 * time.Second)) // half of the default
	if n, err := nc.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// TestPlainRequestToASecuredServer checks that a plain request gets an answer that says why it
// fails, and other bytes get none.
func TestPlainRequestToASecuredServer(t *testing.T) {
	server, _ := certified(t)
	sv := serve(t, &web.Server{TLS: server, ErrorLog: slog.New(slog.DiscardHandler)})
	for _, tt := range []struct {
		sent     string
		answered bool
	}{
		{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", true},
		{"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", true},
		{"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", true},
		{"\x00\x01\x02\x03\x04\x05\x06\x07", false},
		{"EHLO mail.example\r\n", false},
	} {
		nc, br := dial(t, sv)
		io.WriteString(nc, tt.sent)
		if !tt.answered {
			if b, err := br.ReadByte(); err == nil {
				t.Errorf("%q is answered with %q", tt.sent, b)
			}
			continue
		}
		res, body := response(t, br, "GET")
		if res.StatusCode != 400 || !res.Close || !strings.Contains(body, "HTTPS") {
			t.Errorf("%q: got %d %q, close %v", tt.sent, res.StatusCode, body, res.Close)
		}
	}
}

// TestFailedHandshakeIsAWarningWithThePeersAddress covers clients that send an alert, and
// clients that do not speak TLS.
func TestFailedHandshakeIsAWarningWithThePeersAddress(t *testing.T) {
	for name, attempt := range map[string]func(net.Conn) error{
		"alert":      func(nc net.Conn) error { return tls.Client(nc, &tls.Config{ServerName: "a"}).Handshake() },
		"not TLS":    func(nc net.Conn) error { return closedOrAnswered(nc, "hello, this is no handshake") },
		"plain HTTP": func(nc net.Conn) error { return closedOrAnswered(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n") },
	} {
		t.Run(name, func(t *testing.T) {
			records := make(recordChannel, 10)
			s := &web.Server{ErrorLog: slog.New(records)}
			s.TLS, _ = certified(t)
			nc := connect(t, serve(t, s).Addr())
			if err := attempt(nc); err == nil {
				t.Error("the handshake succeeded")
			}
			nc.Close()
			r := <-records
			found := map[string]string{}
			r.Attrs(func(a slog.Attr) bool {
				found[a.Key] = a.Value.String()
				return true
			})
			if r.Level != slog.LevelWarn || found["remote"] != nc.LocalAddr().String() {
				t.Errorf("level %v, %q: %s", r.Level, found, r.Message)
			}
			if plain := strings.Contains(found["err"], "HTTP request to an HTTPS port"); plain != (name == "plain HTTP") {
				t.Errorf("the reason is %q", found["err"])
			}
		})
	}
}

// closedOrAnswered sends what is no handshake, and returns an error when the server has reacted.
func closedOrAnswered(nc net.Conn, text string) error {
	io.WriteString(nc, text)
	_, err := nc.Read(make([]byte, 1000))
	return errors.Join(err, errors.New("closed or answered"))
}

// recordChannel is a log handler that sends the records to a channel.
type recordChannel chan slog.Record

func (c recordChannel) Enabled(context.Context, slog.Level) bool { return true }

func (c recordChannel) Handle(_ context.Context, r slog.Record) error {
	c <- r
	return nil
}

func (c recordChannel) WithAttrs([]slog.Attr) slog.Handler { return c }

func (c recordChannel) WithGroup(string) slog.Handler { return c }
