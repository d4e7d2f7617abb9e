package web_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/web"
)

// TestTransportFullDuplex: a server that answers while it reads is read while it is
// written to, in tasks and from goroutines.
func TestTransportFullDuplex(t *testing.T) {
	both(t, func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex()
		io.Copy(w, r.Body)
	}, func(t *testing.T, base string) {
		sent := block(short.Of(8 << 20))
		tasks(t, func(ctx context.Context) {
			c := &http.Client{Transport: &web.Transport{}}
			ask := func() error {
				_, got, err := do(ctx, c, "POST", base, struct{ io.Reader }{bytes.NewReader(sent)})
				if got != string(sent) {
					return fmt.Errorf("%d of %d bytes, %w", len(got), len(sent), err)
				}
				return err
			}
			if err := ask(); err != nil {
				t.Errorf("a task: %v", err)
			}
			if _, err := spindle.Blocking(ctx, func() (int, error) { return 0, ask() }); err != nil {
				t.Errorf("a goroutine: %v", err)
			}
		})
	})
}

// TestTransportEarlyAnswer: a server that refuses a body without reading it is heard.
func TestTransportEarlyAnswer(t *testing.T) {
	base := script(t, func(n int, c net.Conn, br *bufio.Reader) {
		http.ReadRequest(br)
		io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno!")
		io.Copy(io.Discard, io.LimitReader(br, 100_000))
		// And it neither reads on nor closes.
		c.Read(nil)
	})
	tasks(t, func(ctx context.Context) {
		res, got, err := do(ctx, &http.Client{Transport: &web.Transport{}}, "POST", base, bytes.NewReader(make([]byte, 64<<20)))
		if err != nil || got != "no!" || res.StatusCode != 413 {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// told is a body that records whether it was read and closed.
type told struct {
	io.Reader
	read, closed bool
}

func (b *told) Read(p []byte) (int, error) {
	b.read = true
	return b.Reader.Read(p)
}

func (b *told) Close() error {
	b.closed = true
	return nil
}

// TestTransportExpectContinue: the body is sent after a 100 response, or when none comes
// for a while, and not after a refusal.
func TestTransportExpectContinue(t *testing.T) {
	for name, tc := range map[string]struct {
		answer string // before the body
		sent   bool
	}{
		"wanted":   {"HTTP/1.1 100 Continue\r\n\r\n", true},
		"silence":  {"", true},
		"refused":  {"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", false},
		"redirect": {"HTTP/1.1 303 See Other\r\nContent-Length: 0\r\n\r\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			base := script(t, func(n int, c net.Conn, br *bufio.Reader) {
				req, err := http.ReadRequest(br)
				if err != nil {
					return
				}
				io.WriteString(c, tc.answer)
				body, err := io.ReadAll(req.Body)
				if tc.sent {
					fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
				} else if err == nil {
					t.Errorf("the body was sent: %q", body)
				}
				c.Close()
			})
			tasks(t, func(ctx context.Context) {
				body := &told{Reader: strings.NewReader("hello")}
				req, _ := http.NewRequestWithContext(ctx, "POST", base, body)
				req.ContentLength = 5
				req.Header.Set("Expect", "100-continue")
				wait := time.Minute
				if tc.answer == "" {
					wait = 10 * time.Millisecond
				}
				res, err := (&web.Transport{ContinueTimeout: wait}).RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(res.Body)
				if err != nil || tc.sent != (string(got) == "hello") || body.read != tc.sent || !body.closed {
					t.Errorf("%q, %v, body read %v, closed %v", got, err, body.read, body.closed)
				}
				idle(t, ctx, 0) // the server may wait for the body
			})
		})
	}
}

// TestTransportWrongLength: a body that is not as long as it was said is an error, and
// the server is not told that it was all.
func TestTransportWrongLength(t *testing.T) {
	whole := make(chan string, 10)
	base := script(t, func(n int, c net.Conn, br *bufio.Reader) {
		req, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		if body, err := io.ReadAll(req.Body); err == nil {
			whole <- string(body)
		}
	})
	broken := errors.New("no more of this")
	tasks(t, func(ctx context.Context) {
		for name, tc := range map[string]struct {
			length int64
			body   io.Reader
			want   string
		}{
			"longer":         {3, strings.NewReader("hello"), "ContentLength=3"},
			"shorter":        {10, strings.NewReader("hello"), "ContentLength=10"},
			"much shorter":   {1 << 20, strings.NewReader("hello"), "ContentLength=1048576"},
			"fails":          {10, io.MultiReader(strings.NewReader("hel"), failingReader{broken}), broken.Error()},
			"fails unframed": {-1, io.MultiReader(strings.NewReader("hel"), failingReader{broken}), broken.Error()},
		} {
			body := &told{Reader: tc.body}
			req, _ := http.NewRequestWithContext(ctx, "POST", base, body)
			req.ContentLength = tc.length
			if _, err := (&web.Transport{}).RoundTrip(req); err == nil || !strings.Contains(err.Error(), tc.want) || !body.closed {
				t.Errorf("%s: %v, closed %v", name, err, body.closed)
			}
		}
		for _, name := range []string{"hello", "hell"} { // that lie in memory
			req, _ := http.NewRequestWithContext(ctx, "POST", base, strings.NewReader(name))
			req.ContentLength = 9 - int64(len(name))
			if req.ContentLength == int64(len(name)) {
				t.Fatal("the test is wrong")
			}
			if _, err := (&web.Transport{}).RoundTrip(req); err == nil {
				t.Error("no error")
			}
		}
	})
	select {
	case body := <-whole:
		t.Errorf("the server took %q for all", body)
	default:
	}
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

// TestTransportTrailers of a request.
func TestTransportTrailers(t *testing.T) {
	both(t, everything, func(t *testing.T, base string) {
		tasks(t, func(ctx context.Context) {
			req, _ := http.NewRequestWithContext(ctx, "POST", base+"/echo", strings.NewReader("hello"))
			req.Trailer = http.Header{"X-Sum": {"5"}}
			res, err := (&web.Transport{}).RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(res.Body)
			if want := "5 <nil> [] -1 map[X-Sum:[5]]"; string(got) != want || err != nil {
				t.Errorf("%q, %v", got, err)
			}
		})
	})
}

// TestTransportInvalidTrailers checks that the request fails and names the trailer,
// although it is set at the end of the body, declared or not.
func TestTransportInvalidTrailers(t *testing.T) {
	base := script(t, func(n int, c net.Conn, br *bufio.Reader) { io.Copy(io.Discard, br) })
	for name, value := range map[string]string{"X-Sum": "a\nb", "Content-Type": "text/plain"} {
		for how, declared := range map[string]string{"declared": name, "undeclared": "X-Other"} {
			t.Run(name+", "+how, func(t *testing.T) {
				tasks(t, func(ctx context.Context) {
					var req *http.Request
					end := readerFunc(func([]byte) (int, error) {
						req.Trailer.Set(name, value)
						return 0, io.EOF
					})
					req, _ = http.NewRequestWithContext(ctx, "POST", base, io.MultiReader(strings.NewReader("hello"), end))
					req.Trailer = http.Header{declared: nil}
					_, err := (&web.Transport{}).RoundTrip(req)
					if err == nil || !strings.Contains(err.Error(), "invalid trailer field") || !strings.Contains(err.Error(), name) {
						t.Errorf("got %v", err)
					}
				})
			})
		}
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestTransportBadRequests are refused before anything is sent, and their bodies closed.
func TestTransportBadRequests(t *testing.T) {
	base := script(t, func(n int, c net.Conn, br *bufio.Reader) {
		if _, err := br.ReadByte(); err == nil {
			t.Error("something was sent")
		}
	})
	tasks(t, func(ctx context.Context) {
		for name, spoil := range map[string]func(r *http.Request){
			"scheme":  func(r *http.Request) { r.URL.Scheme = "gopher" },
			"no host": func(r *http.Request) { r.URL.Host = "" },
			"no URL":  func(r *http.Request) { r.URL = nil },
			"method":  func(r *http.Request) { r.Method = "GET IT" },
			"host":    func(r *http.Request) { r.Host = "a\r\nb" },
			"name":    func(r *http.Request) { r.Header["Bad Name"] = []string{"x"} },
			"value":   func(r *http.Request) { r.Header["X"] = []string{"a\r\nEvil: b"} },
		} {
			body := &told{Reader: strings.NewReader("hello")}
			req, _ := http.NewRequestWithContext(ctx, "POST", base, body)
			if spoil(req); !body.closed {
				if _, err := (&web.Transport{}).RoundTrip(req); err == nil || !body.closed {
					t.Errorf("%s: %v, closed %v", name, err, body.closed)
				}
			}
		}
	})
}

// TestTransportAnswerBeforeTheBody: the next request waits for the end of the body, or
// goes elsewhere; it does not go into it.
func TestTransportAnswerBeforeTheBody(t *testing.T) {
	const size = 16 << 20
	answered := make(chan bool, 1)
	base := script(t, func(n int, c net.Conn, br *bufio.Reader) {
		for {
			req, err := http.ReadRequest(br)
			if err != nil {
				if strings.Contains(err.Error(), "malformed") {
					t.Errorf("connection %d: %v", n, err)
				}
				return
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			if req.Method == "GET" {
				continue
			}
			<-answered
			body, _ := io.ReadAll(req.Body)
			if i := bytes.IndexFunc(body, func(r rune) bool { return r != 0 }); i >= 0 {
				t.Errorf("in the body: %q", body[i:min(i+20, len(body))])
			}
		}
	})
	tasks(t, func(ctx context.Context) {
		c := &http.Client{Transport: &web.Transport{}}
		for _, method := range []string{"POST", "GET"} {
			var body io.Reader
			if method == "POST" {
				body = bytes.NewReader(make([]byte, size))
			}
			if _, got, err := do(ctx, c, method, base, body); got != "ok" || err != nil {
				t.Errorf("%s: %q, %v", method, got, err)
			}
			answered <- true
		}
	})
}

// onlyElsewhere is a body that must not be read on the loop.
type onlyElsewhere struct {
	io.Reader
	ctx context.Context
}

func (b onlyElsewhere) Read(p []byte) (int, error) {
	if _, err := spindle.CallOn(b.ctx, spindle.LoopOf(b.ctx), func(context.Context) (int, error) { return 0, nil }); err != nil {
		return 0, err
	}
	return b.Reader.Read(p)
}

// TestTransportBodyOfAGoroutine is read by a goroutine, because it may block.
func TestTransportBodyOfAGoroutine(t *testing.T) {
	both(t, everything, func(t *testing.T, base string) {
		tasks(t, func(ctx context.Context) {
			if _, err := spindle.Blocking(ctx, func() (int, error) {
				_, got, err := do(ctx, &http.Client{Transport: &web.Transport{}}, "POST", base+"/echo", onlyElsewhere{strings.NewReader("hello"), ctx})
				if !strings.HasPrefix(got, "5 <nil>") {
					t.Errorf("%q", got)
				}
				return 0, err
			}); err != nil {
				t.Error(err)
			}
		})
	})
}

// TestTransportClosesABodyThatIsNotSent, also while it is being waited for.
func TestTransportClosesABodyThatIsNotSent(t *testing.T) {
	base := script(t, func(n int, c net.Conn, br *bufio.Reader) {
		http.ReadRequest(br)
		c.Close()
	})
	tasks(t, func(ctx context.Context) {
		r, w := io.Pipe()
		if _, err := spindle.Blocking(ctx, func() (int, error) {
			_, _, err := do(ctx, &http.Client{Transport: &web.Transport{}}, "POST", base, r)
			if err == nil {
				t.Error("no error")
			}
			_, err = w.Write([]byte("hello"))
			return 0, err
		}); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("the body: %v", err)
		}
	})
}
