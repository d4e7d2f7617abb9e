package web_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/web"
)

// TestSlowHeaderIsRefused: the time-out is for all of it, so that a byte now and then
// does not help.
func TestSlowHeaderIsRefused(t *testing.T) {
	sv := serve(t, &web.Server{HeaderTimeout: 200 * time.Millisecond})
	nc, br := dial(t, sv)
	stop := make(chan struct{})
	var dribble sync.WaitGroup
	dribble.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		io.WriteString(nc, "GET / HTTP/1.1\r\nX: ")
		for {
			select {
			case <-tick.C:
				io.WriteString(nc, "x")
			case <-stop:
				return
			}
		}
	})
	if res, _ := response(t, br, "GET"); res.StatusCode != 408 || !res.Close {
		t.Errorf("got %d, close %v", res.StatusCode, res.Close)
	}
	close(stop)
	dribble.Wait()
}

func TestSilentAndIdleConnectionsAreClosed(t *testing.T) {
	sv := serve(t, &web.Server{HeaderTimeout: 20 * time.Millisecond, IdleTimeout: 20 * time.Millisecond})
	silent, br := dial(t, sv)
	if _, err := br.ReadByte(); err != io.EOF {
		t.Errorf("a silent one: %v", err)
	}
	silent.Close()
	idle, br := dial(t, sv)
	io.WriteString(idle, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if res, _ := response(t, br, "GET"); res.StatusCode != 404 || res.Close {
		t.Errorf("got %d", res.StatusCode)
	}
	if _, err := br.ReadByte(); err != io.EOF {
		t.Errorf("an idle one: %v", err)
	}
}

func TestSlowBodyEndsTheRequest(t *testing.T) {
	ends := make(chan error, 2)
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		ends <- err
		ends <- untilEnd(r.Context())
	}) {
		s.BodyTimeout = 20 * time.Millisecond
		t.Run(name, func(t *testing.T) {
			nc, br := dial(t, serve(t, s))
			io.WriteString(nc, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")
			if err := <-ends; err == nil {
				t.Error("the body ended in order")
			}
			if err := <-ends; err != web.ErrTimeout {
				t.Errorf("the context ended with %v", err)
			}
			if res, _ := response(t, br, "POST"); !res.Close {
				t.Error("the connection goes on")
			}
		})
	}
}

// TestSlowReaderHoldsTheHandler: it waits, and the server keeps no more than the water
// mark; when the peer takes nothing for too long, the request ends.
func TestSlowReaderHoldsTheHandler(t *testing.T) {
	leak.Check(t, 2<<20)
	type outcome struct {
		written int
		err     error
		cause   error
	}
	ends := make(chan outcome, 1)
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		var o outcome
		chunk := make([]byte, 64<<10)
		for o.err == nil && o.written < 1<<30 {
			var n int
			n, o.err = w.Write(chunk)
			o.written += n
		}
		o.cause = untilEnd(r.Context())
		ends <- o
	}) {
		s.WriteTimeout = 50 * time.Millisecond
		t.Run(name, func(t *testing.T) {
			nc, _ := dial(t, serve(t, s))
			io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			o := <-ends
			if o.err == nil || o.cause != web.ErrTimeout {
				t.Errorf("got %v, cause %v", o.err, o.cause)
			}
			if o.written > 32<<20 {
				t.Errorf("%d bytes were taken from the handler", o.written)
			}
		})
	}
}

// TestLeanAnswersWaitForTheReader: pipelined requests are not read while the answers to
// those before are not taken, even if all of them came at once.
func TestLeanAnswersWaitForTheReader(t *testing.T) {
	answered := 0 // loop goroutine only
	sv := serve(t, &web.Server{
		WriteTimeout: 50 * time.Millisecond,
		Lean: func(c *web.LeanCtx) bool {
			if answered++; answered == 1 {
				c.Conn().SetWriteBuffer(4096)
			}
			if answered == 200 {
				t.Error("answers without end for who does not read")
			}
			c.WriteString(strings.Repeat("x", 8<<10))
			return true
		},
	})
	nc := smallBuffered(t, sv)
	requests := []byte(strings.Repeat("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 1000))
	for {
		if _, err := nc.Write(requests); err != nil {
			break // the server has closed it, as nobody reads
		}
	}
}

func TestSlowlorisDoesNotHoldUpOthers(t *testing.T) {
	leak.Check(t, 2<<20)
	sv := serve(t, &web.Server{
		HeaderTimeout: time.Minute,
		Handler:       http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok") }),
	})
	for range 500 {
		nc, err := net.Dial("tcp", sv.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		io.WriteString(nc, "GET / HTTP/1.1\r\nHo")
	}
	for range 100 {
		if _, body := get(t, client(t), url(sv, "/")); body != "ok" {
			t.Fatalf("got %q", body)
		}
	}
}

func TestDeadlinesOfTheResponseController(t *testing.T) {
	ends := make(chan error, 1)
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		if err := rc.EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		if r.URL.Path == "/write" {
			if err := rc.SetWriteDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
				t.Error(err)
			}
			var err error
			for chunk := make([]byte, 1<<20); err == nil; {
				_, err = w.Write(chunk)
			}
			ends <- untilEnd(r.Context())
			return
		}
		if err := rc.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
			t.Error(err)
		}
		_, err := io.ReadAll(r.Body)
		ends <- err
	}) {
		t.Run(name, func(t *testing.T) {
			sv := serve(t, s)
			nc, br := dial(t, sv)
			io.WriteString(nc, "POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n")
			if err := <-ends; !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("read: %v", err)
			}
			response(t, br, "POST")
			nc, _ = dial(t, sv)
			io.WriteString(nc, "GET /write HTTP/1.1\r\nHost: a\r\n\r\n")
			if err := <-ends; err != web.ErrTimeout {
				t.Errorf("write: %v", err)
			}
		})
	}
}

// TestLateBodyIsADeadlineExceeded: what a handler reads is a time-out to the standard
// library too.
func TestLateBodyIsADeadlineExceeded(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		var timeout net.Error
		fmt.Fprint(w, errors.Is(err, web.ErrTimeout), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout())
	}) {
		s.BodyTimeout = time.Millisecond
		t.Run(name, func(t *testing.T) {
			got := raw(t, serve(t, s), "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe", "POST")
			if got[0] != "200 true true true" {
				t.Errorf("got %q", got)
			}
		})
	}
}
