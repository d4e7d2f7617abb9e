package web_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/stream"
	"github.com/spindleloop/spindle/web"
)

// transports calls test with the Transport of net/http and with the one of this package,
// on a goroutine. Headers may take as long as patience; zero means no limit.
func transports(t *testing.T, patience time.Duration, test func(t *testing.T, ctx context.Context, rt http.RoundTripper)) {
	t.Run("net", func(t *testing.T) {
		rt := &http.Transport{ResponseHeaderTimeout: patience}
		defer rt.CloseIdleConnections()
		test(t, t.Context(), rt)
	})
	t.Run("web", func(t *testing.T) {
		tasks(t, func(ctx context.Context) {
			spindle.Blocking(ctx, func() (int, error) {
				test(t, ctx, &web.Transport{HeaderTimeout: patience})
				return 0, nil
			})
		})
	})
}

// TestTransportRefusesBadRequestsBeforeADial names the bad part, and closes the body. The
// address does not exist, so that a dial fails otherwise.
func TestTransportRefusesBadRequestsBeforeADial(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*http.Request)
		want   string
	}{
		"method":        {func(r *http.Request) { r.Method = "a b" }, `invalid method "a b"`},
		"name":          {func(r *http.Request) { r.Header = http.Header{"A b": {"c"}} }, `invalid header field name "A b"`},
		"value":         {func(r *http.Request) { r.Header.Set("X", "a\nb") }, `invalid header field value for "X"`},
		"trailer name":  {func(r *http.Request) { r.Trailer = http.Header{"A b": {"c"}} }, `invalid trailer field name "A b"`},
		"trailer value": {func(r *http.Request) { r.Trailer = http.Header{"X": {"a\nb"}} }, `invalid trailer field value for "X"`},
		"no host":       {func(r *http.Request) { r.URL.Host = "" }, `no Host in request URL`},
		"no URL":        {func(r *http.Request) { r.URL = nil }, `nil Request.URL`},
	} {
		t.Run(name, func(t *testing.T) {
			transports(t, 0, func(t *testing.T, ctx context.Context, rt http.RoundTripper) {
				body := &closeCounter{Reader: strings.NewReader("hello")}
				req, err := http.NewRequestWithContext(ctx, "POST", "http://127.0.0.1:1/", body)
				if err != nil {
					t.Fatal(err)
				}
				c.change(req)
				if _, err := rt.RoundTrip(req); err == nil || !strings.HasSuffix(err.Error(), c.want) {
					t.Errorf("got %v, want %s", err, c.want)
				}
				if n := body.closed.Load(); n != 1 {
					t.Errorf("the body was closed %d times", n)
				}
			})
		})
	}
}

func TestTransportFailsWithTheErrorOfTheBody(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }))
	defer s.Close()
	transports(t, 0, func(t *testing.T, ctx context.Context, rt http.RoundTripper) {
		for range 50 {
			req, _ := http.NewRequestWithContext(ctx, "POST", s.URL, io.MultiReader(strings.NewReader("hello"), iotest.ErrReader(errEnough)))
			if _, err := rt.RoundTrip(req); !errors.Is(err, errEnough) {
				t.Fatal(err)
			}
		}
	})
}

func TestTransportHeaderTimeoutIsANetError(t *testing.T) {
	base := script(t, func(_ int, c net.Conn, br *bufio.Reader) { hear(br) })
	transports(t, 20*time.Millisecond, func(t *testing.T, ctx context.Context, rt http.RoundTripper) {
		for _, body := range []io.Reader{nil, io.MultiReader(strings.NewReader("hello"))} {
			req, _ := http.NewRequestWithContext(ctx, "POST", base, body)
			_, err := rt.RoundTrip(req)
			if timeout, ok := err.(net.Error); !ok || !timeout.Timeout() {
				t.Errorf("%T %v", err, err)
			}
		}
	})
}

func TestTransportToAPlainServer(t *testing.T) {
	s := httptest.NewServer(text("hello"))
	defer s.Close()
	transports(t, 0, func(t *testing.T, ctx context.Context, rt http.RoundTripper) {
		req, _ := http.NewRequestWithContext(ctx, "GET", strings.Replace(s.URL, "http:", "https:", 1), nil)
		if _, err := (&http.Client{Transport: rt}).Do(req); !errors.Is(err, http.ErrSchemeMismatch) {
			t.Error(err)
		}
	})
}

// TestTransportReadsNothingAfterClose, not even what is decompressed already.
func TestTransportReadsNothingAfterClose(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		gz := gzip.NewWriter(w)
		io.WriteString(gz, strings.Repeat("x", 100_000))
		gz.Close()
	}))
	defer s.Close()
	transports(t, 0, func(t *testing.T, ctx context.Context, rt http.RoundTripper) {
		req, _ := http.NewRequestWithContext(ctx, "GET", s.URL, nil)
		res, err := rt.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(res.Body, make([]byte, 10)); err != nil {
			t.Error(err)
		}
		res.Body.Close()
		if n, err := res.Body.Read(make([]byte, 10)); n > 0 || err == nil {
			t.Errorf("%d bytes, %v", n, err)
		}
	})
}

// TestResponseCloseIsWhatTheServerSays, and not what the request asks for.
func TestResponseCloseIsWhatTheServerSays(t *testing.T) {
	base := script(t, func(n int, c net.Conn, br *bufio.Reader) {
		if req, err := hear(br); err == nil {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"+req.Header.Get("X-Say")+"\r\n\r\n")
		}
	})
	transports(t, 0, func(t *testing.T, ctx context.Context, rt http.RoundTripper) {
		for say, want := range map[string]bool{"Connection: close": true, "X: 1": false} {
			req, _ := http.NewRequestWithContext(ctx, "GET", base, nil)
			req.Close = true
			req.Header.Set("X-Say", say)
			res, err := rt.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.Close != want {
				t.Errorf("%q: Close is %v", say, res.Close)
			}
		}
	})
}

// TestTransportDialSeesTheRequestsValues, in a task and on a goroutine.
func TestTransportDialSeesTheRequestsValues(t *testing.T) {
	s := httptest.NewServer(text("hello"))
	defer s.Close()
	tasks(t, func(ctx context.Context) {
		dials := 0
		transport := &web.Transport{Context: ctx, MaxIdle: -1, Dial: func(ctx context.Context, network, address string) (*stream.Conn, error) {
			dials++
			if ctx.Value(key("a")) != "b" || ctx.Value(key("none")) != nil {
				t.Errorf("value %v", ctx.Value(key("a")))
			}
			return stream.Dial(ctx, network, address)
		}}
		request := func(ctx context.Context) (int, error) {
			_, _, err := do(context.WithValue(ctx, key("a"), "b"), &http.Client{Transport: transport}, "GET", s.URL, nil)
			return 0, err
		}
		_, err := request(ctx)
		_, err2 := spindle.Blocking(ctx, func() (int, error) { return request(context.Background()) })
		if err := errors.Join(err, err2); err != nil || dials != 2 {
			t.Errorf("%d dials, %v", dials, err)
		}
	})
}
