package web_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/web"
)

// smallBuffered returns a client with a tiny receive buffer.
func smallBuffered(t testing.TB, sv *web.Service) net.Conn {
	t.Helper()
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
	}}
	nc, err := d.Dial("tcp", sv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return nc
}

// TestIdlePeerThatDoesNotRead checks that an idle connection is closed although its last
// response cannot be sent.
func TestIdlePeerThatDoesNotRead(t *testing.T) {
	lost := make(chan bool)
	sv := serve(t, &web.Server{
		IdleTimeout:  20 * time.Millisecond,
		WriteTimeout: 20 * time.Millisecond,
		Lean: func(c *web.LeanCtx) bool {
			c.Conn().SetBuffers(0, 4096)
			c.WriteString(strings.Repeat("x", 60<<10)) // less than the water mark
			return true
		},
	})
	nc := smallBuffered(t, sv)
	io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	io.ReadFull(nc, make([]byte, 1))
	sv.Drain(func() { close(lost) })
	<-lost
}

// TestEndedPeerThatDoesNotRead checks that a peer that has closed its sending side is
// closed too, whatever the idle time-out is.
func TestEndedPeerThatDoesNotRead(t *testing.T) {
	sv := serve(t, &web.Server{
		IdleTimeout:  -1,
		WriteTimeout: 20 * time.Millisecond,
		MaxConns:     1,
		Lean: func(c *web.LeanCtx) bool {
			if string(c.Path()) == "/" {
				c.Conn().SetBuffers(0, 4096)
				c.WriteString(strings.Repeat("x", 60<<10)) // less than the water mark
			}
			return true
		},
	})
	nc := smallBuffered(t, sv)
	io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	nc.(*net.TCPConn).CloseWrite()
	next, br := dial(t, sv) // is accepted when the first has ended
	next.SetReadDeadline(time.Now().Add(time.Minute))
	io.WriteString(next, "GET /next HTTP/1.1\r\nHost: a\r\n\r\n")
	response(t, br, "GET")
}

// TestLastResponseThatIsNotRead closes a connection after each number of responses, so that
// one of them is the first that cannot be sent. It is small, and sent only after the close.
func TestLastResponseThatIsNotRead(t *testing.T) {
	t.Parallel()
	answered := make(chan bool)
	sv := serve(t, &web.Server{
		WriteTimeout: 20 * time.Millisecond,
		Lean: func(c *web.LeanCtx) bool {
			c.Conn().SetBuffers(0, 4096)
			return false
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, strings.Repeat("x", 3800))
			answered <- true
		}),
	})
	for n := range 8 {
		nc := smallBuffered(t, sv)
		for range n {
			io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			<-answered
		}
		io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		<-answered
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := sv.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}

// TestSlowReaderHoldsTheHandler checks that a handler waits, that the server buffers no more
// than the water mark, and that the request ends when the peer reads nothing for too long.
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
			if o.err == nil || !errors.Is(o.cause, os.ErrDeadlineExceeded) {
				t.Errorf("got %v, cause %v", o.err, o.cause)
			}
			if o.written > 32<<20 {
				t.Errorf("%d bytes were taken from the handler", o.written)
			}
		})
	}
}

// TestLeanAnswersWaitForTheReader checks that pipelined requests are not read while earlier
// answers are unsent, even if all of them came at once.
func TestLeanAnswersWaitForTheReader(t *testing.T) {
	answered := 0 // loop goroutine only
	sv := serve(t, &web.Server{
		WriteTimeout: 50 * time.Millisecond,
		Lean: func(c *web.LeanCtx) bool {
			if answered++; answered == 1 {
				c.Conn().SetBuffers(0, 4096)
			}
			if answered == 200 {
				t.Error("the server answers although the client does not read")
			}
			c.WriteString(strings.Repeat("x", 8<<10))
			return true
		},
	})
	nc := smallBuffered(t, sv)
	requests := []byte(strings.Repeat("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 1000))
	for {
		if _, err := nc.Write(requests); err != nil {
			break // the server has closed it, as the client does not read
		}
	}
}
