package web_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/web"
)

// response reads a response and its body.
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

// lateCalls are the methods of a request and its response that a goroutine may call after
// the handler has returned.
var lateCalls = map[string]func(w http.ResponseWriter, r *http.Request) error{
	"Write": func(w http.ResponseWriter, r *http.Request) error {
		_, err := io.WriteString(w, "late")
		return err
	},
	"Write of more than a buffer": func(w http.ResponseWriter, r *http.Request) error {
		_, err := w.Write(make([]byte, 10<<10))
		return err
	},
	"Write and Flush": func(w http.ResponseWriter, r *http.Request) error {
		io.WriteString(w, "late")
		return http.NewResponseController(w).Flush()
	},
	"WriteHeader and Flush": func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("X-Late", "1")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusTeapot)
		w.(http.Flusher).Flush()
		return http.NewResponseController(w).Flush()
	},
	"ReadFrom": func(w http.ResponseWriter, r *http.Request) error {
		_, err := w.(io.ReaderFrom).ReadFrom(strings.NewReader("late"))
		return err
	},
	"ReadFrom a file": func(w http.ResponseWriter, r *http.Request) error {
		f, err := os.Open(os.Args[0])
		if err != nil {
			return nil
		}
		defer f.Close()
		_, err = w.(io.ReaderFrom).ReadFrom(f)
		return err
	},
	"Hijack": func(w http.ResponseWriter, r *http.Request) error {
		_, _, err := http.NewResponseController(w).Hijack()
		return err
	},
	"Upgrade": func(w http.ResponseWriter, r *http.Request) error {
		return web.Upgrade(w, r, nil, shout{make(chan error, 1)})
	},
	"SetReadDeadline": func(w http.ResponseWriter, r *http.Request) error {
		return http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
	},
	"SetWriteDeadline": func(w http.ResponseWriter, r *http.Request) error {
		return http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0))
	},
	"EnableFullDuplex": func(w http.ResponseWriter, r *http.Request) error {
		return http.NewResponseController(w).EnableFullDuplex()
	},
	"Body.Read": func(w http.ResponseWriter, r *http.Request) error {
		n, err := r.Body.Read(make([]byte, 10))
		if err != http.ErrBodyReadAfterClose {
			return fmt.Errorf("wrong error: %d, %v", n, err)
		}
		return err
	},
}

// TestCallsAfterTheHandlerReturnedFail checks that a goroutine that outlives its handler gets
// errors, and does not affect the connection's next response.
func TestCallsAfterTheHandlerReturnedFail(t *testing.T) {
	proceed, results := make(chan bool), make(chan string)
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/next" {
			io.WriteString(w, "next")
			return
		}
		call := lateCalls[r.Header.Get("Call")]
		go func() {
			<-proceed
			defer func() {
				if v := recover(); v != nil {
					results <- fmt.Sprint("panic: ", v)
				}
			}()
			results <- fmt.Sprint(call(w, r))
		}()
		if r.URL.Path == "/flushed" {
			w.Header().Set("Trailer", "X-T")
			io.WriteString(w, "now")
			w.(http.Flusher).Flush()
		}
	}) {
		s.ErrorLog = quiet
		t.Run(name, func(t *testing.T) {
			sv := serve(t, s)
			for call := range lateCalls {
				for _, path := range []string{"/", "/flushed"} {
					nc, br := dial(t, sv)
					fmt.Fprintf(nc, "POST %s HTTP/1.1\r\nHost: a\r\nCall: %s\r\nContent-Length: 5\r\n\r\nhello", path, call)
					response(t, br, "POST")
					proceed <- true
					if got := <-results; got == "<nil>" || strings.Contains(got, "panic") || strings.Contains(got, "wrong") {
						t.Errorf("%s after %s: %s", call, path, got)
					}
					io.WriteString(nc, "GET /next HTTP/1.1\r\nHost: a\r\n\r\n")
					if res, body := response(t, br, "GET"); body != "next" || res.StatusCode != 200 || res.Header.Get("X-Late") != "" {
						t.Errorf("after a late %s on %s: %d %q %v", call, path, res.StatusCode, body, res.Header)
					}
					nc.Close()
				}
			}
		})
	}
}

// TestHandlerReturnsWhileAGoroutineWrites checks that the response is well formed and ends,
// and that the next one is not affected.
func TestHandlerReturnsWhileAGoroutineWrites(t *testing.T) {
	t.Parallel()
	var writers sync.WaitGroup
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/next" {
			w.Header().Set("X-Next", "1")
			io.WriteString(w, "next")
			return
		}
		w.WriteHeader(200)
		started := make(chan bool, 1)
		go func() {
			defer writers.Done()
			c := http.NewResponseController(w)
			p := []byte(strings.Repeat("x", 1000))
			for i := 0; ; i++ {
				_, err := w.Write(p)
				if i%3 == 0 {
					c.Flush()
				}
				if i == 0 {
					started <- true
				}
				if err != nil {
					return
				}
			}
		}()
		if spindle.Current(r.Context()) != nil {
			spindle.Sleep(r.Context(), 100*time.Microsecond) // a task must not wait for a goroutine
		} else {
			<-started
		}
	}) {
		s.ErrorLog = quiet
		t.Run(name, func(t *testing.T) {
			nc, br := dial(t, serve(t, s))
			for range short.Of(200) {
				writers.Add(1) // not in the handler: Wait must follow it
				io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /next HTTP/1.1\r\nHost: a\r\n\r\n")
				if _, body := response(t, br, "GET"); strings.Trim(body, "x") != "" || len(body)%1000 != 0 {
					t.Fatalf("got %.100q (%d bytes)", body, len(body))
				}
				if res, body := response(t, br, "GET"); body != "next" || res.Header.Get("X-Next") != "1" {
					t.Fatalf("the next one is %q %v", body, res.Header)
				}
			}
			writers.Wait()
		})
	}
}
