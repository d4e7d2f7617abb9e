package web_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/web"
)

// TestSlowHeaderIsRefused checks that the time-out covers the whole header, so that sending a
// byte now and then does not extend it.
func TestSlowHeaderIsRefused(t *testing.T) {
	t.Parallel()
	sv, begin := bind(t, &web.Server{HeaderTimeout: 200 * time.Millisecond})
	nc, br := dial(t, sv)
	io.WriteString(nc, "GET / HTTP/1.1\r\nX: ")
	begin()
	stop := make(chan struct{})
	var dribble sync.WaitGroup
	dribble.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
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
	silent, br := dial(t, serve(t, &web.Server{HeaderTimeout: 20 * time.Millisecond}))
	if _, err := br.ReadByte(); err != io.EOF {
		t.Errorf("a silent one: %v", err)
	}
	silent.Close()
	sv, begin := bind(t, &web.Server{IdleTimeout: 20 * time.Millisecond})
	idle, br := dial(t, sv)
	io.WriteString(idle, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	begin()
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
			if err := <-ends; !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the context ended with %v", err)
			}
			if res, _ := response(t, br, "POST"); !res.Close {
				t.Error("the connection goes on")
			}
		})
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

// TestLateBodyIsADeadlineExceeded checks that the standard library recognises the error of Read
// as a time-out.
func TestLateBodyIsADeadlineExceeded(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		var timeout net.Error
		fmt.Fprint(w, errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout())
	}) {
		s.BodyTimeout = time.Millisecond
		t.Run(name, func(t *testing.T) {
			got := raw(t, serve(t, s), "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel", "POST")
			if got[0] != "200 true true" {
				t.Errorf("got %q", got)
			}
		})
	}
}
