package stream_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/rpc"
	"net/rpc/jsonrpc"
	"net/smtp"
	"net/textproto"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/stream"
)

// The standard library uses our connections as it uses its own: in tasks where it
// starts no goroutines, and from goroutines where it does.

// TestHTTP runs an unmodified server on a Listener and an unmodified client on a
// Dialer.
func TestHTTP(t *testing.T) {
	onReal(t, func(t *testing.T, ctx context.Context) {
		ln := listen(t, ctx, "tcp")
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			fmt.Fprintf(w, "%s %s %d ", r.Method, r.URL.Path, len(body))
			w.Write(body)
		}), ReadHeaderTimeout: 10 * time.Second}
		ended := make(chan error, 1)
		go func() { ended <- srv.Serve(ln) }()

		transport := &http.Transport{DialContext: func(_ context.Context, network, address string) (net.Conn, error) {
			return stream.Dialer{}.DialContext(ctx, network, address)
		}}
		client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
		_, err := spindle.Blocking(ctx, func() (int, error) {
			var calls sync.WaitGroup
			for i := range 20 {
				calls.Go(func() {
					sent := pattern(i * 50_000)
					resp, err := client.Post(fmt.Sprintf("http://%s/%d", ln.Addr(), i), "x/y", bytes.NewReader(sent))
					if err != nil {
						t.Error(err)
						return
					}
					defer resp.Body.Close()
					got, err := io.ReadAll(resp.Body)
					if err != nil {
						t.Error(err)
					}
					same(t, got, append(fmt.Appendf(nil, "POST /%d %d ", i, len(sent)), sent...))
				})
			}
			calls.Wait()
			transport.CloseIdleConnections()
			return 0, srv.Shutdown(ctx)
		})
		check(t, err)
		_, err = spindle.Blocking(ctx, func() (int, error) { return 0, <-ended })
		want(t, "Serve", err, http.ErrServerClosed)
	})
}

// TestHTTPClientGivesUp checks that a request's context ends its dial and its wait.
func TestHTTPClientGivesUp(t *testing.T) {
	address := unresponsiveAddr(t, "127.0.0.1")
	onBackend(t, "", func(t *testing.T, ctx context.Context) {
		transport := &http.Transport{DialContext: func(_ context.Context, network, address string) (net.Conn, error) {
			late, cancel := context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			return stream.Dialer{}.DialContext(late, network, address)
		}}
		_, err := spindle.Blocking(ctx, func() (*http.Response, error) {
			return (&http.Client{Transport: transport}).Get("http://" + address)
		})
		want(t, "Get", err, context.DeadlineExceeded)
	})
}

// TestSMTP sends a mail with net/smtp in a task to a net/textproto server in another
// task.
func TestSMTP(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		var mail []string
		server := func(ctx context.Context, c *stream.Conn) error {
			text := textproto.NewConn(c)
			text.PrintfLine("220 hello")
			for {
				line, err := text.ReadLine()
				if err != nil {
					return err
				}
				switch verb, _, _ := strings.Cut(line, " "); verb {
				case "DATA":
					text.PrintfLine("354 go on")
					if mail, err = text.ReadDotLines(); err != nil {
						return err
					}
					text.PrintfLine("250 taken")
				case "QUIT":
					return text.PrintfLine("221 bye")
				default:
					text.PrintfLine("250 ok")
				}
			}
		}
		served(t, ctx, stream.ServeConfig{}, server, func(ctx context.Context, ln *stream.Listener, _ *spindle.Scope) {
			c, err := smtp.NewClient(dial(t, ctx, ln), "localhost")
			check(t, err)
			check(t, c.Mail("a@example.com"))
			check(t, c.Rcpt("b@example.com"))
			w, err := c.Data()
			check(t, err)
			fmt.Fprintf(w, "Subject: hello\r\n\r\n.dots\r\nand lines\r\n")
			check(t, w.Close())
			check(t, c.Quit())
		})
		if got := strings.Join(mail, "|"); got != "Subject: hello||.dots|and lines" {
			t.Errorf("%q", got)
		}
	})
}

// Arith is a service of net/rpc.
type Arith struct{}

// Multiply multiplies.
func (Arith) Multiply(args [2]int, reply *int) error {
	*reply = args[0] * args[1]
	return nil
}

// TestRPC runs net/rpc, which starts goroutines of its own on both sides.
func TestRPC(t *testing.T) {
	onReal(t, func(t *testing.T, ctx context.Context) {
		a, b := pair(t, ctx, "unix")
		srv := rpc.NewServer()
		check(t, srv.Register(Arith{}))
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			srv.ServeCodec(jsonrpc.NewServerCodec(b))
		}()
		_, err := spindle.Blocking(ctx, func() (int, error) {
			client := jsonrpc.NewClient(a)
			defer client.Close()
			var calls sync.WaitGroup
			for i := range 20 {
				calls.Go(func() {
					var product int
					if err := client.Call("Arith.Multiply", [2]int{i, 7}, &product); err != nil || product != 7*i {
						t.Errorf("%d × 7 is %d, %v", i, product, err)
					}
				})
			}
			calls.Wait()
			return 0, nil
		})
		check(t, err)
		spindle.Blocking(ctx, func() (int, error) { <-ended; return 0, nil })
	})
}

// TestBufio uses buffered readers and writers in tasks, with both ends on one loop.
func TestBufio(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		a, b := pair(t, ctx, "tcp")
		const lines = 20_000
		together(t, ctx, func(ctx context.Context, n *spindle.Nursery) {
			n.Go(func(context.Context) error {
				w := bufio.NewWriter(a)
				for i := range lines {
					fmt.Fprintf(w, "line %d\n", i)
				}
				// A large write bypasses the buffer.
				w.Write(bytes.Repeat([]byte("x"), 200_000))
				w.WriteByte('\n')
				if err := w.Flush(); err != nil {
					return err
				}
				return a.CloseWrite()
			})
			s := bufio.NewScanner(b)
			s.Buffer(nil, 1<<20)
			for i := range lines {
				if !s.Scan() || s.Text() != fmt.Sprint("line ", i) {
					t.Fatalf("line %d is %q, %v", i, s.Text(), s.Err())
				}
			}
			if !s.Scan() || len(s.Bytes()) != 200_000 || s.Scan() || s.Err() != nil {
				t.Errorf("the last line has %d bytes, %v", len(s.Bytes()), s.Err())
			}
		})
	})
}
