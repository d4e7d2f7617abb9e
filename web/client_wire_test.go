package web_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/http1"
	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/web"
)

// script is a server that answers in its own words: talk is called for each
// connection, with its number.
func script(t testing.TB, talk func(n int, c net.Conn, br *bufio.Reader)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan bool)
	go func() {
		defer close(ended)
		for n := 1; ; n++ {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			go talk(n, c, bufio.NewReader(c))
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		<-ended
	})
	return "http://" + ln.Addr().String()
}

// hear reads a request and its body.
func hear(br *bufio.Reader) (*http.Request, error) {
	req, err := http.ReadRequest(br)
	if err == nil {
		_, err = io.Copy(io.Discard, req.Body)
	}
	return req, err
}

// TestTransportHostileResponses: each is an error, and none is waited for.
func TestTransportHostileResponses(t *testing.T) {
	leak.Check(t, 1<<20)
	endless := strings.Repeat("X-Filler: "+strings.Repeat("x", 1000)+"\r\n", 100)
	for name, tc := range map[string]struct {
		response string
		want     error
	}{
		"nothing":            {"", io.EOF},
		"no HTTP":            {"SSH-2.0-OpenSSH\r\n", web.ErrMalformedResponse},
		"half a status line": {"HTTP/1.1 2", io.ErrUnexpectedEOF},
		"bad status":         {"HTTP/1.1 2x0 OK\r\n\r\n", http1.ErrStatusLine},
		"HTTP/2":             {"HTTP/2.0 200 OK\r\n\r\n", http1.ErrVersionUnsupported},
		"half a header":      {"HTTP/1.1 200 OK\r\nA: b\r\n", io.ErrUnexpectedEOF},
		"no name":            {"HTTP/1.1 200 OK\r\n: b\r\n\r\n", http1.ErrFieldName},
		"too large":          {"HTTP/1.1 200 OK\r\n" + endless + "\r\n", http1.ErrHeaderTooLarge},
		"two lengths":        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", http1.ErrContentLengthRepeated},
		"length and chunks":  {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", http1.ErrLengthWithEncoding},
		"body too short":     {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", io.ErrUnexpectedEOF},
		"no last chunk":      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", io.ErrUnexpectedEOF},
		"bad chunk":          {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", http1.ErrChunkSize},
		"bad gzip":           {"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", io.ErrUnexpectedEOF},
		"continue for ever":  {strings.Repeat(http1.Continue, 1000), web.ErrMalformedResponse},
		"hints for ever":     {strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n", 1000), web.ErrMalformedResponse},
	} {
		t.Run(name, func(t *testing.T) {
			base := script(t, func(_ int, c net.Conn, br *bufio.Reader) {
				hear(br)
				io.WriteString(c, tc.response)
				c.(*net.TCPConn).CloseWrite()
				io.Copy(io.Discard, br)
				c.Close()
			})
			tasks(t, func(ctx context.Context) {
				_, got, err := do(ctx, &http.Client{Transport: &web.Transport{}}, "GET", base, nil)
				if !errors.Is(err, tc.want) {
					t.Errorf("%q, %v", got, err)
				}
			})
		})
	}
}

// TestTransportDoesNotUseAgain what has said more than it was asked, or closes, or was
// left with much unread.
func TestTransportDoesNotUseAgain(t *testing.T) {
	for name, response := range map[string]string{
		"two responses": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n",
		"closes":        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
		"HTTP/1.0":      "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"much unread":   "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nok",
	} {
		t.Run(name, func(t *testing.T) {
			gone := make(chan int, 10)
			base := script(t, func(n int, c net.Conn, br *bufio.Reader) {
				hear(br)
				io.WriteString(c, response)
				io.Copy(io.Discard, br)
				gone <- n
				c.Close()
			})
			tasks(t, func(ctx context.Context) {
				c := &http.Client{Transport: &web.Transport{}}
				for n := 1; n <= 2; n++ {
					req, _ := http.NewRequestWithContext(ctx, "GET", base, nil)
					res, err := c.Do(req)
					if err != nil {
						t.Fatal(err)
					}
					io.ReadFull(res.Body, make([]byte, 2))
					res.Body.Close()
					if left, _ := spindle.Blocking(ctx, func() (int, error) { return <-gone, nil }); left != n {
						t.Errorf("connection %d was closed, not %d", left, n)
					}
				}
			})
		})
	}
}

// TestTransportTriesAgain on another connection, if the one it had kept was closed, and
// the request does no harm.
func TestTransportTriesAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		method, key string
		body        io.Reader
		again       bool
	}{
		"GET":                       {"GET", "", nil, true},
		"POST":                      {"POST", "", nil, false},
		"POST that may be repeated": {"POST", "1", strings.NewReader("hello"), true},
		"a body that is gone":       {"GET", "", io.MultiReader(strings.NewReader("hello")), false},
	} {
		t.Run(name, func(t *testing.T) {
			said := make(chan string, 10)
			base := script(t, func(n int, c net.Conn, br *bufio.Reader) {
				for i := 0; ; i++ {
					req, err := http.ReadRequest(br)
					if err != nil {
						return
					}
					body, _ := io.ReadAll(req.Body)
					said <- fmt.Sprint(n, " ", string(body))
					if n == 1 && i == 1 {
						c.Close() // just when it is used again
						return
					}
					io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				}
			})
			tasks(t, func(ctx context.Context) {
				c := &http.Client{Transport: &web.Transport{}}
				if _, _, err := do(ctx, c, "GET", base, nil); err != nil {
					t.Fatal(err)
				}
				idle(t, ctx, 1)
				req, err := http.NewRequestWithContext(ctx, tc.method, base, tc.body)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Idempotency-Key", tc.key)
				res, err := c.Transport.RoundTrip(req)
				if (err == nil) != tc.again {
					t.Errorf("%v", err)
				}
				if err == nil {
					if res.Request != req {
						t.Error("the response is for another request")
					}
					res.Body.Close()
				}
				<-said
				first := <-said
				if tc.again {
					if second := <-said; second[1:] != first[1:] || second[0] != '2' {
						t.Errorf("%q and then %q", first, second)
					}
				}
			})
		})
	}
}

// TestTransportDoesNotRepeatABodyThatFails: another connection would not help.
func TestTransportDoesNotRepeatABodyThatFails(t *testing.T) {
	base := script(t, func(n int, c net.Conn, br *bufio.Reader) {
		for {
			if _, err := hear(br); err != nil {
				return
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})
	tasks(t, func(ctx context.Context) {
		c := &http.Client{Transport: &web.Transport{}}
		if _, _, err := do(ctx, c, "GET", base, nil); err != nil {
			t.Fatal(err)
		}
		idle(t, ctx, 1)
		req, err := http.NewRequestWithContext(ctx, "GET", base, failingReader{errEnough})
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = 1 << 20
		req.GetBody = func() (io.ReadCloser, error) {
			t.Error("the request was made again")
			return io.NopCloser(failingReader{errEnough}), nil
		}
		if _, err := c.Transport.RoundTrip(req); !errors.Is(err, errEnough) {
			t.Errorf("%v", err)
		}
	})
}

// TestTransportNoticesAClosedConnection while it is idle: a POST that could not be
// repeated does not meet it.
func TestTransportNoticesAClosedConnection(t *testing.T) {
	hangUp := make(chan bool)
	base := script(t, func(n int, c net.Conn, br *bufio.Reader) {
		for {
			if _, err := hear(br); err != nil {
				return
			}
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d", n)
			if n == 1 {
				<-hangUp
				c.Close()
			}
		}
	})
	tasks(t, func(ctx context.Context) {
		c := &http.Client{Transport: &web.Transport{}}
		for _, want := range []string{"1", "2"} {
			if _, got, err := do(ctx, c, "POST", base, nil); got != want || err != nil {
				t.Errorf("%q, %v", got, err)
			}
			idle(t, ctx, 1)
			if want == "1" {
				close(hangUp)
				idle(t, ctx, 0)
			}
		}
	})
}

// TestTransportHeaderTimeout: a server that does not answer.
func TestTransportHeaderTimeout(t *testing.T) {
	base := script(t, func(n int, c net.Conn, br *bufio.Reader) {
		hear(br)
		io.Copy(io.Discard, br)
	})
	tasks(t, func(ctx context.Context) {
		c := &http.Client{Transport: &web.Transport{HeaderTimeout: 10 * time.Millisecond}}
		if _, _, err := do(ctx, c, "GET", base, nil); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}

// TestTransportHints: httptrace hooks are called for interim responses.
func TestTransportHints(t *testing.T) {
	base := script(t, func(n int, c net.Conn, br *bufio.Reader) {
		hear(br)
		io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	})
	tasks(t, func(ctx context.Context) {
		var heard []string
		traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			heard = append(heard, fmt.Sprint(code, h["Link"]))
			return nil
		}})
		_, got, err := do(traced, &http.Client{Transport: &web.Transport{}}, "GET", base, nil)
		if got != "ok" || err != nil || fmt.Sprint(heard) != "[103 [a] 102 []]" {
			t.Errorf("%q, %v, heard %v", got, err, heard)
		}
	})
}

// TestTransportUpgrade: the body of a 101 is the connection, with what came early.
func TestTransportUpgrade(t *testing.T) {
	base := script(t, func(n int, c net.Conn, br *bufio.Reader) {
		hear(br)
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nearly ")
		io.Copy(c, br)
		c.Close()
	})
	tasks(t, func(ctx context.Context) {
		req, _ := http.NewRequestWithContext(ctx, "GET", base, nil)
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "echo")
		res, err := (&web.Transport{}).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		c, ok := res.Body.(io.ReadWriteCloser)
		if !ok || res.StatusCode != 101 || res.ContentLength != 0 || res.Header.Get("Upgrade") != "echo" {
			t.Fatalf("%+v", res)
		}
		defer c.Close()
		io.WriteString(c, "and late")
		got := make([]byte, len("early and late"))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != "early and late" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// TestTransportMoreThanItsLength, read in one large piece.
func TestTransportMoreThanItsLength(t *testing.T) {
	begun, gone := make(chan bool), make(chan int, 10)
	base := script(t, func(n int, c net.Conn, br *bufio.Reader) {
		hear(br)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
		<-begun
		io.WriteString(c, "okHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nsmug!")
		io.Copy(io.Discard, br)
		gone <- n
	})
	tasks(t, func(ctx context.Context) {
		c := &http.Client{Transport: &web.Transport{}}
		for n := 1; n <= 2; n++ {
			req, _ := http.NewRequestWithContext(ctx, "GET", base, nil)
			res, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			begun <- true
			buf := make([]byte, 32<<10)
			if got, err := res.Body.Read(buf); string(buf[:got]) != "ok" || err != nil {
				t.Errorf("%q, %v", buf[:got], err)
			}
			res.Body.Close()
			if left, _ := spindle.Blocking(ctx, func() (int, error) { return <-gone, nil }); left != n {
				t.Errorf("connection %d was closed, not %d", left, n)
			}
		}
	})
}
