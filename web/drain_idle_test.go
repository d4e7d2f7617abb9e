package web_test

import (
	"bufio"
	"context"
	"io"
	"math"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
	"github.com/spindleloop/spindle/web"
)

// TestDrainKeepsConnectionsInUse checks that a request that was on its way when the drain
// began is answered: on a connection that was used before, and on one that is new.
func TestDrainKeepsConnectionsInUse(t *testing.T) {
	t.Parallel()
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "done") }) {
		t.Run(name, func(t *testing.T) {
			s.DrainIdle = time.Minute
			made := make(chan bool, 100)
			s.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					select {
					case made <- true:
					default: // the drain accepts what waitUntilRefused has queued
					}
				}
			}
			sv := serve(t, s)
			used, usedReader := dial(t, sv)
			io.WriteString(used, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			response(t, usedReader, "GET")
			fresh, freshReader := dial(t, sv)
			<-made
			<-made
			ended := make(chan error, 1)
			go func() { ended <- sv.Shutdown(context.Background()) }()
			waitUntilRefused(t, sv)
			for _, c := range []struct {
				nc net.Conn
				br *bufio.Reader
			}{{used, usedReader}, {fresh, freshReader}} {
				io.WriteString(c.nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
				if res, body := response(t, c.br, "GET"); body != "done" || !res.Close {
					t.Errorf("got %q, close %v", body, res.Close)
				}
				c.nc.Close()
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestDrainClosesUnusedConnections checks that connections without a request are closed
// after DrainIdle.
func TestDrainClosesUnusedConnections(t *testing.T) {
	t.Parallel()
	sv := serve(t, &web.Server{DrainIdle: 50 * time.Millisecond})
	_, fresh := dial(t, sv)
	used, usedReader := dial(t, sv)
	io.WriteString(used, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	response(t, usedReader, "GET")
	ended := make(chan error, 1)
	go func() { ended <- sv.Shutdown(context.Background()) }()
	for _, br := range []*bufio.Reader{fresh, usedReader} {
		if _, err := br.ReadByte(); err != io.EOF {
			t.Errorf("a connection without a request: %v", err)
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestDrainKeepsConnectionsOfResponsesBegunBefore checks that a connection is kept for one
// more request if its response was begun before the drain: it has not announced the close.
func TestDrainKeepsConnectionsOfResponsesBegunBefore(t *testing.T) {
	t.Parallel()
	goOn := make(chan bool)
	h := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			http.NewResponseController(w).Flush()
			wait := func() (struct{}, error) { <-goOn; return struct{}{}, nil }
			if spindle.Current(r.Context()) != nil {
				spindle.Blocking(r.Context(), wait)
			} else {
				wait()
			}
		}
		io.WriteString(w, "done")
	}
	for name, s := range kinds(h) {
		t.Run(name, func(t *testing.T) {
			s.DrainIdle = time.Minute
			sv := serve(t, s)
			nc, br := dial(t, sv)
			io.WriteString(nc, "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
			if _, err := br.Peek(1); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- sv.Shutdown(context.Background()) }()
			waitUntilRefused(t, sv)
			goOn <- true
			if res, body := response(t, br, "GET"); body != "done" || res.Close {
				t.Errorf("got %q, close %v", body, res.Close)
			}
			io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			if res, body := response(t, br, "GET"); body != "done" || !res.Close {
				t.Errorf("got %q, close %v", body, res.Close)
			}
			nc.Close()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestDrainKeepsConnectionsWhenKeepAlivesAreEnabled checks that enabling keep-alives during a
// drain closes no connection.
func TestDrainKeepsConnectionsWhenKeepAlivesAreEnabled(t *testing.T) {
	t.Parallel()
	s := &web.Server{DrainIdle: time.Minute}
	sv := serve(t, s)
	nc, br := dial(t, sv)
	io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	response(t, br, "GET")
	ended := make(chan error, 1)
	go func() { ended <- sv.Shutdown(context.Background()) }()
	waitUntilRefused(t, sv)
	s.SetKeepAlivesEnabled(true)
	io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if res, _ := response(t, br, "GET"); !res.Close {
		t.Error("the response does not announce the close")
	}
	nc.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestDrainKeepsConnectionsThatWereIdle checks that DrainIdle begins with the drain, also
// for a connection that was idle for longer.
func TestDrainKeepsConnectionsThatWereIdle(t *testing.T) {
	t.Parallel()
	const keep = 100 * time.Millisecond
	sv := serve(t, &web.Server{DrainIdle: keep})
	nc, br := dial(t, sv)
	io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	response(t, br, "GET")
	busy, busyReader := dial(t, sv)
	for idle := time.Now(); time.Since(idle) < 2*keep; {
		io.WriteString(busy, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		response(t, busyReader, "GET")
	}
	busy.Close()
	begun := time.Now()
	ended := make(chan error, 1)
	go func() { ended <- sv.Shutdown(context.Background()) }()
	if _, err := br.ReadByte(); err != io.EOF {
		t.Errorf("got %v", err)
	}
	if kept := time.Since(begun); kept < keep {
		t.Errorf("closed after %v", kept)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestDrainIdleWithoutALimit: a time beyond the end of the clock never comes.
func TestDrainIdleWithoutALimit(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		s := &web.Server{DrainIdle: math.MaxInt64, Handler: web.Inline(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))}
		sv, err := s.Listen(spindle.LoopOf(ctx), "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		c, err := stream.Dial(ctx, "tcp", sv.Addr().String())
		if err != nil {
			return err
		}
		defer c.Close()
		br := bufio.NewReader(c)
		for range 2 {
			if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
				return err
			}
			if _, err := http.ReadResponse(br, nil); err != nil {
				return err
			}
			sv.Drain(func() {})
			if err := spindle.Sleep(ctx, time.Hour); err != nil {
				return err
			}
		}
		return nil
	})
}
