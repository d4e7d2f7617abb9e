package stream_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/nettest"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/tlstest"
	"github.com/spindleloop/spindle/stream"
)

// serveTLS runs a loop beside the test, with a listener for secured connections. It
// returns the context of the loop's task.
func serveTLS(t *testing.T, config *tls.Config) (ctx context.Context, ln net.Listener) {
	t.Helper()
	ended, ready := make(chan error, 1), make(chan struct{})
	outer, cancel := context.WithCancel(context.Background())
	go func() {
		ended <- spindle.Run(outer, func(inner context.Context) (err error) {
			if ln, err = listenTLS(inner, config); err != nil {
				return err
			}
			ctx = inner
			close(ready)
			return spindle.Sleep(inner, time.Hour)
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	return ctx, ln
}

// listenTLS returns a listener for secured connections.
func listenTLS(ctx context.Context, config *tls.Config) (net.Listener, error) {
	ln, err := stream.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return stream.TLS{Config: config}.Listener(ln), nil
}

// TestTLSConnFromGoroutines runs the standard library's tests for a net.Conn. All of
// them pass, while crypto/tls itself fails those that continue after a timeout,
// because its session does not survive a timeout of Write. The handshake must be
// complete first, because a timeout ends it.
func TestTLSConnFromGoroutines(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for many deadlines; TestConnFromGoroutines has the same cases without TLS")
	}
	t.Parallel()
	ctx, ln := serveTLS(t, tlstest.Identity().Server)
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		shaken := make(chan error, 1)
		go func() {
			var err error
			if c2, err = ln.Accept(); err == nil {
				err = c2.(*stream.TLSConn).Handshake()
			}
			shaken <- err
		}()
		c1, err = stream.TLS{Config: tlstest.Identity().Client}.Dial(ctx, "tcp", ln.Addr().String())
		if err == nil {
			err = <-shaken
		}
		return c1, c2, func() {
			c1.Close()
			c2.Close()
		}, err
	})
}

func TestTLSServesNetHTTP(t *testing.T) {
	config := tlstest.Identity().Server.Clone()
	config.ClientAuth = tls.RequireAndVerifyClientCert
	config.ClientCAs = tlstest.Identity().CA.Pool()
	_, ln := serveTLS(t, config)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Client-Name", r.TLS.PeerCertificates[0].Subject.CommonName)
		body, _ := io.ReadAll(r.Body)
		w.Write(body)
	})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()

	client := tlstest.Identity().Client.Clone()
	client.Certificates = []tls.Certificate{tlstest.Identity().CA.Issue("alice")}
	transport := &http.Transport{TLSClientConfig: client}
	post(t, t.Context(), transport, "https://"+ln.Addr().String())
	transport.CloseIdleConnections()
	if err := server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != http.ErrServerClosed {
		t.Error(err)
	}
}

// TestTLSListenerUnderNetHTTP: a net/http server recognizes a secured connection
// only if it is a *tls.Conn. A TLS.Listener with a configuration that offers HTTP/2
// therefore serves HTTP/1.1; HTTP/2 needs ServeTLS with a plain Listener.
func TestTLSListenerUnderNetHTTP(t *testing.T) {
	config := tlstest.Identity().Server.Clone()
	config.NextProtos = []string{"h2", "http/1.1"}
	chosen := config.Clone()
	config2 := config.Clone()
	config2.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return chosen, nil }
	ctx, _ := serveTLS(t, config)
	for name, c := range map[string]struct {
		listen func() (net.Listener, error)
		serve  func(*http.Server, net.Listener) error
		proto  string
	}{
		"TLS.Listener": {
			func() (net.Listener, error) { return listenTLS(ctx, config) },
			(*http.Server).Serve, "HTTP/1.1"},
		"TLS.Listener with GetConfigForClient": {
			func() (net.Listener, error) { return listenTLS(ctx, config2) },
			(*http.Server).Serve, "HTTP/1.1"},
		"ServeTLS": {
			func() (net.Listener, error) { return stream.Listen(ctx, "tcp", "127.0.0.1:0") },
			func(s *http.Server, ln net.Listener) error { return s.ServeTLS(ln, "", "") }, "HTTP/2.0"},
	} {
		t.Run(name, func(t *testing.T) {
			server := &http.Server{TLSConfig: config.Clone(), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.WriteString(w, r.Proto)
			})}
			ln := must(c.listen())
			served := make(chan error, 1)
			go func() { served <- c.serve(server, ln) }()
			client := &http.Transport{TLSClientConfig: tlstest.Identity().Client.Clone(), ForceAttemptHTTP2: true}
			res, err := (&http.Client{Transport: client}).Get("https://" + ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil || string(body) != c.proto {
				t.Errorf("served %q: %v", body, err)
			}
			client.CloseIdleConnections()
			check(t, server.Shutdown(t.Context()))
			want(t, "Serve", <-served, http.ErrServerClosed)
		})
	}
}

// post sends a few requests; the later ones reuse an open connection.
func post(t *testing.T, ctx context.Context, transport *http.Transport, url string) {
	t.Helper()
	body := strings.Repeat("to be sent back ", 10_000)
	for range 5 {
		request := must(http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(body)))
		answer, err := (&http.Client{Transport: transport}).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || string(got) != body {
			t.Fatalf("%d bytes came back of %d: %v", len(got), len(body), err)
		}
		if name := answer.Header.Get("Client-Name"); name != "alice" {
			t.Errorf("the client's name is %q", name)
		}
	}
}

func TestTLSDialsForNetHTTP(t *testing.T) {
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Client-Name", "alice")
			body, _ := io.ReadAll(r.Body)
			w.Write(body)
		}),
	}
	ln, err := tls.Listen("tcp", "127.0.0.1:0", tlstest.Identity().Server)
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(ln)
	defer server.Close()
	ctx, _ := serveTLS(t, tlstest.Identity().Server)
	transport := &http.Transport{DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		return stream.TLS{Config: tlstest.Identity().Client}.Dial(ctx, network, address)
	}}
	defer transport.CloseIdleConnections()
	post(t, ctx, transport, "https://"+ln.Addr().String())
}

// TestTLSTasksAndGoroutinesShareAConn: on each side, a task reads and a goroutine
// writes.
func TestTLSTasksAndGoroutinesShareAConn(t *testing.T) {
	const size = 1 << 20
	data := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	runTask(t, func(ctx context.Context) error {
		return withTLSPair(ctx, tlstest.Identity().Server, tlstest.Identity().Client, func(ctx context.Context, s, c *stream.TLSConn) error {
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				for _, pair := range [][2]*stream.TLSConn{{s, c}, {c, s}} {
					n.Go(func(ctx context.Context) error {
						return inGoroutine(ctx, func() error { _, err := pair[0].Write(data); return err })
					})
					n.Go(func(ctx context.Context) error {
						got := make([]byte, size)
						_, err := io.ReadFull(pair[1], got)
						if !bytes.Equal(got, data) {
							t.Error("read something else")
						}
						return err
					})
				}
				return nil
			})
		})
	})
}
