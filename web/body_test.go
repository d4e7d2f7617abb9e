package web_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/web"
)

// TestAReadThatPanicsIsNoReader checks that a Read after one that panicked is not refused as
// the second of two.
func TestAReadThatPanicsIsNoReader(t *testing.T) {
	stumble := func(r io.Reader) {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		runtime.LockOSThread() // a task with a locked thread must not wait
		r.Read(make([]byte, 1))
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/body", func(w http.ResponseWriter, r *http.Request) {
		stumble(r.Body)
		w.Write([]byte("first "))
		w.(http.Flusher).Flush()
		io.Copy(w, r.Body)
	})
	mux.HandleFunc("/hijacked", func(w http.ResponseWriter, r *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		stumble(c)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nfirst ")
		io.CopyN(c, c, 5)
	})
	sv := serve(t, &web.Server{Handler: web.Inline(mux)})
	for _, request := range []string{
		"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n",
		"GET /hijacked HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		nc, br := dial(t, sv)
		io.WriteString(nc, request)
		res, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(nc, "hello")
		if got, err := io.ReadAll(res.Body); string(got) != "first hello" || err != nil {
			t.Errorf("%q: got %q, %v", request, got, err)
		}
	}
}

// halfCloser is a connection that can close its sending side alone.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// dialHalf connects to sv, with TLS if trust is not nil.
func dialHalf(t testing.TB, sv *web.Service, trust *tls.Config) halfCloser {
	t.Helper()
	nc, err := net.Dial("tcp", sv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(time.Minute))
	if trust == nil {
		return nc.(*net.TCPConn)
	}
	secured := tls.Client(nc, trust)
	if err := secured.Handshake(); err != nil {
		t.Fatal(err)
	}
	return secured
}

const chunkedHead = " HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"

// TestBadChunkBehindTheResponse checks that a bad chunk after the response is not answered.
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

// TestUnreadChunks checks what a response says when the handler leaves a chunked body: close
// if the rest is too long to be skipped, and keep-alive otherwise.
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

// TestTwoReadersOfABody checks that a second Read fails while the first waits, and that the
// first one gets the data.
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

// TestUnreadBodyIsSkipped checks that the connection continues after a short unread body and
// closes after a long one.
func TestUnreadBodyIsSkipped(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.URL.Path) }) {
		s.Lean = web.LeanRoutes(map[string]func(*web.LeanCtx){"/lean": func(c *web.LeanCtx) { c.Write(c.Path()) }})
		t.Run(name, func(t *testing.T) {
			sv := serve(t, s)
			for _, path := range []string{"/", "/lean"} {
				nc, br := dial(t, sv)
				for range 2 {
					body := strings.Repeat("x", 100_000)
					go fmt.Fprintf(nc, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
					if _, got := response(t, br, "POST"); got != path {
						t.Errorf("got %q", got)
					}
				}
				nc, br = dial(t, sv)
				io.WriteString(nc, "POST "+path+" HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n")
				go io.WriteString(nc, strings.Repeat("x", 10_000_000))
				if _, got := response(t, br, "POST"); got != path {
					t.Errorf("got %q", got)
				}
				if _, err := br.ReadByte(); err == nil {
					t.Error("the connection stays open")
				}
			}
		})
	}
}

// TestFullDuplex writes the response while it reads the request.
func TestFullDuplex(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			fmt.Fprintln(w, strings.ToUpper(lines.Text()))
			w.(http.Flusher).Flush()
		}
	}) {
		t.Run(name, func(t *testing.T) {
			pr, pw := io.Pipe()
			req, _ := http.NewRequest("POST", url(serve(t, s), "/"), pr)
			go io.WriteString(pw, "first\n")
			res, err := client(t).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			br := bufio.NewReader(res.Body)
			for _, next := range []string{"second", "third", ""} {
				line, err := br.ReadString('\n')
				if err != nil || line == "" {
					t.Fatalf("got %q, %v", line, err)
				}
				if next == "" {
					pw.Close()
				} else {
					io.WriteString(pw, next+"\n")
				}
			}
		})
	}
}

// TestLargeBodiesBothWays sends more than any buffer holds, with backpressure.
func TestLargeBodiesBothWays(t *testing.T) {
	const size = 5 << 20
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(w, r.Body); err != nil {
			t.Error(err)
		}
	}) {
		t.Run(name, func(t *testing.T) {
			body := strings.Repeat("0123456789", size/10)
			res, err := client(t).Post(url(serve(t, s), "/"), "text/plain", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if got, err := io.ReadAll(res.Body); err != nil || string(got) != body {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
}

// TestMultipartFilesAreRemoved checks that temporary files are removed however the handler
// ends.
func TestMultipartFilesAreRemoved(t *testing.T) {
	leak.Check(t, 2<<20)
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(100); err != nil {
			t.Error(err)
		}
		files, err := os.ReadDir(dir)
		switch r.URL.Path {
		case "/panic":
			panic(http.ErrAbortHandler)
		case "/exit":
			runtime.Goexit()
		}
		fmt.Fprint(w, len(files), err)
	}) {
		s.ErrorLog = quiet
		t.Run(name, func(t *testing.T) {
			for _, path := range []string{"/", "/panic", "/exit"} {
				sv := serve(t, s)
				var form bytes.Buffer
				mw := multipart.NewWriter(&form)
				fw, _ := mw.CreateFormFile("f", "f")
				fw.Write(make([]byte, 100_000))
				mw.Close()
				res, err := client(t).Post(url(sv, path), mw.FormDataContentType(), &form)
				if path == "/" {
					if err != nil {
						t.Fatal(err)
					}
					if body, _ := io.ReadAll(res.Body); string(body) != "1 <nil>" {
						t.Errorf("inside the handler: %s", body)
					}
					res.Body.Close()
				}
				if err := sv.Shutdown(t.Context()); err != nil { // a task may still be removing them
					t.Error(err)
				}
				if files, err := os.ReadDir(dir); len(files) > 0 || err != nil {
					t.Errorf("%s: left behind: %v, %v", path, files, err)
				}
			}
		})
	}
}

// TestBuffersOfSlowReaders: the buffer of a body keeps what was not read, and not the whole body.
func TestBuffersOfSlowReaders(t *testing.T) {
	if request, response := web.BodyBuffers(10_000); request > 10_000 || response > 10_000 {
		t.Errorf("the buffers have %d and %d bytes", request, response)
	}
}
