package web_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/web"
)

// dial opens a connection and a reader of responses.
func dial(t testing.TB, sv *web.Service) (net.Conn, *bufio.Reader) {
	t.Helper()
	nc, err := net.Dial("tcp", sv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return nc, bufio.NewReader(nc)
}

// response reads one, and its body.
func response(t testing.TB, br *bufio.Reader, method string) (*http.Response, string) {
	t.Helper()
	res, err := http.ReadResponse(br, &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

func TestExpectContinueIsAnsweredWhenTheBodyIsRead(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %v", body, err)
	}) {
		t.Run(name, func(t *testing.T) {
			nc, br := dial(t, serve(t, s))
			for range 2 { // and the connection goes on
				io.WriteString(nc, "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
				line, err := br.ReadString('\n')
				if err != nil || line != "HTTP/1.1 100 Continue\r\n" {
					t.Fatalf("got %q, %v", line, err)
				}
				br.ReadString('\n')
				io.WriteString(nc, "hello")
				if _, body := response(t, br, "POST"); body != "hello <nil>" {
					t.Errorf("got %q", body)
				}
			}
		})
	}
}

func TestExpectContinueOfABodyThatNobodyReads(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(403) }) {
		t.Run(name, func(t *testing.T) {
			nc, br := dial(t, serve(t, s))
			io.WriteString(nc, "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
			res, _ := response(t, br, "POST")
			if res.StatusCode != 403 || !res.Close {
				t.Errorf("got %d, close %v", res.StatusCode, res.Close)
			}
			if _, err := br.ReadByte(); err != io.EOF {
				t.Errorf("it goes on: %v", err)
			}
		})
	}
}

func TestHEADHasTheHeaderOfGET(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, strings.Repeat("x", 3000))
	}) {
		t.Run(name, func(t *testing.T) {
			nc, br := dial(t, serve(t, s))
			for range 2 {
				io.WriteString(nc, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
				res, body := response(t, br, "HEAD")
				if res.ContentLength != 3000 || body != "" || res.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
					t.Errorf("length %d, body %q, %v", res.ContentLength, body, res.Header)
				}
			}
		})
	}
}

func TestStatusesWithoutABody(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusNoContent
		if r.URL.Path == "/304" {
			status = http.StatusNotModified
		}
		w.WriteHeader(status)
		if _, err := io.WriteString(w, "x"); err != http.ErrBodyNotAllowed {
			t.Errorf("writing to %d: %v", status, err)
		}
	}) {
		t.Run(name, func(t *testing.T) {
			nc, br := dial(t, serve(t, s))
			io.WriteString(nc, "GET /204 HTTP/1.1\r\nHost: a\r\n\r\nGET /304 HTTP/1.1\r\nHost: a\r\n\r\n")
			for _, status := range []int{204, 304} {
				head, err := textproto.NewReader(br).ReadLine()
				if err != nil || !strings.HasPrefix(head, fmt.Sprint("HTTP/1.1 ", status)) {
					t.Fatalf("got %q, %v", head, err)
				}
				h, err := textproto.NewReader(br).ReadMIMEHeader()
				if err != nil || h.Get("Content-Length") != "" || h.Get("Transfer-Encoding") != "" {
					t.Errorf("%d: %v, %v", status, h, err)
				}
			}
		})
	}
}

func TestInterimResponses(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Link", "</other.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusTeapot)
		io.WriteString(w, "tea")
	}) {
		t.Run(name, func(t *testing.T) {
			var links []string
			ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
				Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
					links = append(links, fmt.Sprint(code, h.Get("Link")))
					return nil
				},
			})
			req, _ := http.NewRequestWithContext(ctx, "GET", url(serve(t, s), "/"), nil)
			res, err := client(t).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, _ := io.ReadAll(res.Body)
			if fmt.Sprint(links) != "[103</style.css> 103</other.css>]" || res.StatusCode != 418 || string(body) != "tea" {
				t.Errorf("got %v, %d %q", links, res.StatusCode, body)
			}
		})
	}
}

func TestTrailersInBothDirections(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		if len(r.Trailer) != 1 || r.Trailer.Get("X-Sum") != "" {
			t.Errorf("before the body: %v", r.Trailer)
		}
		w.Header().Set("Trailer", "X-Back")
		body, _ := io.ReadAll(r.Body)
		w.Write(body)
		w.Header().Set("X-Back", r.Trailer.Get("X-Sum"))
		w.Header().Set(http.TrailerPrefix+"X-More", "yes")
	}) {
		t.Run(name, func(t *testing.T) {
			pr, pw := io.Pipe()
			req, _ := http.NewRequest("POST", url(serve(t, s), "/"), pr)
			req.Trailer = http.Header{"X-Sum": nil}
			go func() {
				io.WriteString(pw, "hello")
				req.Trailer.Set("X-Sum", "5")
				pw.Close()
			}()
			res, err := client(t).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if res.Header.Get("X-Back") != "" {
				t.Errorf("a trailer came with the header: %v", res.Header)
			}
			body, _ := io.ReadAll(res.Body)
			if string(body) != "hello" || res.Trailer.Get("X-Back") != "5" || res.Trailer.Get("X-More") != "yes" {
				t.Errorf("got %q, %v", body, res.Trailer)
			}
		})
	}
}

func TestChunkedResponses(t *testing.T) {
	const size = 300_000
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		for range size / 3 {
			io.WriteString(w, "abc")
		}
	}) {
		t.Run(name, func(t *testing.T) {
			sv := serve(t, s)
			res, body := get(t, client(t), url(sv, "/"))
			if body != strings.Repeat("abc", size/3) || fmt.Sprint(res.TransferEncoding) != "[chunked]" {
				t.Errorf("%d bytes, %v", len(body), res.TransferEncoding)
			}
			// An old client cannot read chunks: the connection's end is the body's.
			nc, br := dial(t, sv)
			io.WriteString(nc, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
			old, body := response(t, br, "GET")
			if len(body) != size || !old.Close || len(old.TransferEncoding) > 0 {
				t.Errorf("HTTP/1.0: %d bytes, close %v, %v", len(body), old.Close, old.TransferEncoding)
			}
		})
	}
}

func TestOldClientsKeepAliveIfTheyAsk(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) }) {
		s.Lean = web.LeanRoutes(map[string]func(*web.LeanCtx){"/lean": func(c *web.LeanCtx) { c.WriteString("lean") }})
		t.Run(name, func(t *testing.T) {
			nc, br := dial(t, serve(t, s))
			for _, path := range []string{"/", "/lean", "/"} {
				io.WriteString(nc, "GET "+path+" HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
				if res, body := response(t, br, "GET"); res.Header.Get("Connection") != "keep-alive" || res.ContentLength != int64(len(body)) {
					t.Errorf("got %v %q", res.Header, body)
				}
			}
			io.WriteString(nc, "GET / HTTP/1.0\r\n\r\n")
			if res, body := response(t, br, "GET"); body != "HTTP/1.0" || !res.Close {
				t.Errorf("got %v %q", res.Header, body)
			}
			if _, err := br.ReadByte(); err != io.EOF {
				t.Errorf("it goes on: %v", err)
			}
		})
	}
}

// TestNoContinueInsideAResponse: a handler that reads the body only after it has begun
// to answer is too late to ask for it.
func TestNoContinueInsideAResponse(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "first")
		http.NewResponseController(w).Flush()
		io.Copy(w, r.Body)
	}) {
		t.Run(name, func(t *testing.T) {
			nc, br := dial(t, serve(t, s))
			io.WriteString(nc, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
			res, err := http.ReadResponse(br, nil)
			if err != nil || res.StatusCode != 200 {
				t.Fatalf("got %v, %v", res, err)
			}
			io.ReadFull(res.Body, make([]byte, len("first")))
			io.WriteString(nc, "body")
			if rest, err := io.ReadAll(res.Body); err != nil || string(rest) != "body" {
				t.Errorf("got %q, %v", rest, err)
			}
		})
	}
}

// TestTwoReadersOfABody: the second fails while the first waits, and the first gets
// what comes.
func TestTwoReadersOfABody(t *testing.T) {
	type result struct {
		got string
		err error
	}
	refused := make(chan error, 1)
	sv := serve(t, &web.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		results := make(chan result, 2)
		for range 2 {
			go func() {
				p := make([]byte, 10)
				n, err := r.Body.Read(p)
				results <- result{string(p[:n]), err}
			}()
		}
		refused <- (<-results).err
		first := <-results
		io.WriteString(w, first.got)
	})})
	r, w := io.Pipe()
	go func() {
		if err := <-refused; err != web.ErrTwoBodyReaders {
			t.Errorf("the second gets %v", err)
		}
		io.WriteString(w, "hello")
		w.Close()
	}()
	res, err := client(t).Post(url(sv, "/"), "text/plain", r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got, err := io.ReadAll(res.Body); err != nil || string(got) != "hello" {
		t.Errorf("the first gets %q, %v", got, err)
	}
}

// TestBodyReadAfterCloseAsksForNothing: no 100 is sent for a body that is not wanted.
func TestBodyReadAfterCloseAsksForNothing(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		r.Body.Close()
		n, err := r.Body.Read(make([]byte, 1))
		fmt.Fprint(w, n, err)
	}) {
		t.Run(name, func(t *testing.T) {
			nc, _ := dial(t, serve(t, s))
			io.WriteString(nc, "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
			all, err := io.ReadAll(nc)
			if err != nil || !strings.HasPrefix(string(all), "HTTP/1.1 200") || !strings.HasSuffix(string(all), fmt.Sprint(0, http.ErrBodyReadAfterClose)) {
				t.Errorf("got %q, %v", all, err)
			}
		})
	}
}

// TestExpectedBodyThatComesUnasked: a client that did not wait for the 100 keeps its
// connection.
func TestExpectedBodyThatComesUnasked(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }) {
		t.Run(name, func(t *testing.T) {
			nc, br := dial(t, serve(t, s))
			io.WriteString(nc, "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello")
			if res, body := response(t, br, "POST"); body != "hello" || res.Close {
				t.Errorf("got %q, close: %v", body, res.Close)
			}
		})
	}
}
