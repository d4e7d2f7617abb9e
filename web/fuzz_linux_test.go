package web_test

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/spindleloop/spindle/web"
)

// FuzzConn sends bytes to a server in two pieces and closes its side. The server must answer
// in complete responses and close too.
func FuzzConn(f *testing.F) {
	for _, seed := range []string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /lean HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST /lean HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n3\r\nabc\r\n0\r\nX: 1\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\na",
		"HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\n",
	} {
		f.Add([]byte(seed), 20)
	}
	h := web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }))
	l, sv := steps(f, &web.Server{
		Handler:      h,
		MaxBodyBytes: 1 << 16,
		Lean: web.LeanRoutes(map[string]func(*web.LeanCtx){"/lean": func(c *web.LeanCtx) {
			c.ReadBody(100, func(c *web.LeanCtx, body []byte) { c.Write(body) })
		}}),
	})
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		fd := sockets(t, sv, 1)[0]
		cut = max(0, min(cut, len(data)))
		send := func(data []byte) {
			for len(data) > 0 {
				n, err := unix.Write(fd, data)
				if err == unix.EAGAIN {
					err, n = nil, 0
				}
				if err != nil {
					return // closed from there, as it may be
				}
				data = data[n:]
				l.RunOnce(0)
			}
			l.RunOnce(0)
		}
		send(data[:cut])
		send(data[cut:])
		unix.Shutdown(fd, unix.SHUT_WR)
		var got []byte
		buf := make([]byte, 64<<10)
		for {
			if _, err := l.RunOnce(0); err != nil {
				t.Fatal(err)
			}
			n, err := unix.Read(fd, buf)
			if err == unix.EAGAIN {
				continue
			}
			if err == unix.ECONNRESET {
				return
			}
			if err != nil || n == 0 {
				break
			}
			got = append(got, buf[:n]...)
		}
		br := bufio.NewReader(bytes.NewReader(got))
		for {
			if _, err := br.Peek(1); err == io.EOF {
				break
			}
			// Which of them answer HEAD is not known here; their bodies are missing.
			if bytes.Contains(data, []byte("HEAD")) {
				return
			}
			res, err := http.ReadResponse(br, nil)
			if err != nil {
				t.Fatalf("%q answers %q: %v", got, data, err)
			}
			if _, err := io.Copy(io.Discard, res.Body); err != nil {
				t.Fatalf("%q answers %q: %v", got, data, err)
			}
		}
	})
}
