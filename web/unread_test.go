package web_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/web"
)

const chunkedHead = " HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"

// TestBadChunkBehindTheResponse is not answered again.
func TestBadChunkBehindTheResponse(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "answered")
		w.(http.Flusher).Flush()
	}) {
		s.MaxBodyBytes = 1000
		s.Lean = web.LeanRoutes(map[string]func(*web.LeanCtx){"/lean": func(c *web.LeanCtx) { c.WriteString("answered") }})
		t.Run(name, func(t *testing.T) {
			sv := serve(t, s)
			for _, path := range []string{"/", "/lean"} {
				for _, bad := range []string{"zz\r\n", "1\r\nxyz", "ffff\r\n" + strings.Repeat("x", 2000)} {
					c := dialHalf(t, sv, nil)
					br := bufio.NewReader(c)
					io.WriteString(c, "POST "+path+chunkedHead)
					if _, body := response(t, br, "POST"); body != "answered" {
						t.Errorf("got %q", body)
					}
					io.WriteString(c, bad)
					if all, err := io.ReadAll(br); err != nil || len(all) > 0 {
						t.Errorf("%s, %q: got %q, %v", path, bad[:4], all, err)
					}
				}
			}
		})
	}
}

// TestUnreadChunks: a response to a request whose chunked body the handler leaves does
// not promise to go on if the rest is too much to be skipped. If it is not, the
// connection goes on.
func TestUnreadChunks(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/closes":
			r.Body.Close()
		case "/part":
			io.ReadFull(r.Body, make([]byte, 3))
		}
		io.WriteString(w, "answered")
	}) {
		s.Lean = web.LeanRoutes(map[string]func(*web.LeanCtx){"/lean": func(c *web.LeanCtx) { c.WriteString("answered") }})
		t.Run(name, func(t *testing.T) {
			sv := serve(t, s)
			for _, path := range []string{"/", "/closes", "/part", "/lean"} {
				c := dialHalf(t, sv, nil)
				br := bufio.NewReader(c)
				sent := make(chan bool)
				go func() {
					defer close(sent)
					io.WriteString(c, "POST "+path+chunkedHead)
					for range 10 {
						fmt.Fprintf(c, "%x\r\n%s\r\n", 64<<10, strings.Repeat("x", 64<<10))
					}
				}()
				if res, body := response(t, br, "POST"); body != "answered" || !res.Close {
					t.Errorf("%s: got %q, close %v", path, body, res.Close)
				}
				<-sent
				if path == "/lean" {
					continue
				}
				c = dialHalf(t, sv, nil)
				br = bufio.NewReader(c)
				io.WriteString(c, "POST "+path+chunkedHead)
				io.WriteString(c, "5\r\nhello\r\n")
				io.WriteString(c, "0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
				for range 2 {
					if res, body := response(t, br, "POST"); body != "answered" || res.Close {
						t.Errorf("%s: got %q, close %v", path, body, res.Close)
					}
				}
			}
		})
	}
}

// TestLeanHandlerThatLeavesALongBody says that the connection ends.
func TestLeanHandlerThatLeavesALongBody(t *testing.T) {
	sv := serve(t, &web.Server{Lean: func(c *web.LeanCtx) bool { return true }})
	for _, request := range []string{
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n",
		"POST /" + chunkedHead,
	} {
		c := dialHalf(t, sv, nil)
		br := bufio.NewReader(c)
		io.WriteString(c, request)
		if res, _ := response(t, br, "POST"); !res.Close {
			t.Errorf("%q: the connection is to go on", request)
		}
		if _, err := br.ReadByte(); err != io.EOF {
			t.Errorf("%q: %v", request, err)
		}
	}
}
