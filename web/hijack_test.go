package web_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/web"
)

// TestHijackWithEarlyData checks that the handler reads what came with the request, and then
// uses the connection.
func TestHijackWithEarlyData(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		nc, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer nc.Close()
		if r.URL.Path == "/early" && rw.Reader.Buffered() == 0 {
			t.Error("the early data is not in the reader")
		}
		if _, err := io.WriteString(w, "x"); err != http.ErrHijacked {
			t.Errorf("a write after it: %v", err)
		}
		if _, _, err := http.NewResponseController(w).Hijack(); err != http.ErrHijacked {
			t.Errorf("a second one: %v", err)
		}
		if nc.RemoteAddr().String() != r.RemoteAddr || nc.LocalAddr().String() != r.Host {
			t.Errorf("between %v and %v", nc.LocalAddr(), nc.RemoteAddr())
		}
		for {
			line, err := rw.ReadString('\n')
			if err != nil {
				break
			}
			rw.WriteString(strings.ToUpper(line))
			rw.Flush()
		}
	}) {
		t.Run(name, func(t *testing.T) {
			sv := serve(t, s)
			for _, path := range []string{"/", "/early"} {
				nc, br := dial(t, sv)
				request := "GET " + path + " HTTP/1.1\r\nHost: " + sv.Addr().String() + "\r\n\r\n"
				if path == "/early" {
					request += "one\n"
				}
				io.WriteString(nc, request)
				if path == "/" {
					io.WriteString(nc, "one\n")
				}
				if line, err := br.ReadString('\n'); line != "ONE\n" {
					t.Errorf("got %q, %v", line, err)
				}
				long := strings.Repeat("x", 200_000) + "\n"
				go io.WriteString(nc, long)
				if line, err := br.ReadString('\n'); line != strings.ToUpper(long) {
					t.Errorf("got %d bytes, %v", len(line), err)
				}
				nc.(*net.TCPConn).CloseWrite()
				if _, err := br.ReadByte(); err != io.EOF {
					t.Errorf("the connection stays open: %v", err)
				}
			}
		})
	}
}

func TestHijackedDeadlinesAndClose(t *testing.T) {
	ends := make(chan error, 3)
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		nc, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		nc.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
		_, err = nc.Read(make([]byte, 1))
		ends <- err
		nc.SetDeadline(time.Time{})
		nc.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
		for err = nil; err == nil; {
			_, err = nc.Write(make([]byte, 1<<20))
		}
		ends <- err
		nc.Close()
		_, err = nc.Read(make([]byte, 1))
		ends <- err
	}) {
		t.Run(name, func(t *testing.T) {
			sv := serve(t, s)
			nc, _ := dial(t, sv)
			io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			for _, want := range []error{os.ErrDeadlineExceeded, os.ErrDeadlineExceeded, net.ErrClosed} {
				if err := <-ends; !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
			}
			nc.Close()
		})
	}
}

// TestSwitchingProtocolsByHand switches like libraries for net/http.
func TestSwitchingProtocolsByHand(t *testing.T) {
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Upgrade", "echo")
		w.Header().Set("Connection", "Upgrade")
		w.WriteHeader(http.StatusSwitchingProtocols)
		nc, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer nc.Close()
		io.Copy(nc, rw)
	}) {
		t.Run(name, func(t *testing.T) {
			nc, br := dial(t, serve(t, s))
			io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nhello")
			res, err := http.ReadResponse(br, nil)
			if err != nil || res.StatusCode != 101 || res.Header.Get("Upgrade") != "echo" {
				t.Fatalf("got %v, %v", res, err)
			}
			nc.(*net.TCPConn).CloseWrite()
			if all, err := io.ReadAll(bufio.NewReader(br)); string(all) != "hello" {
				t.Errorf("got %q, %v", all, err)
			}
		})
	}
}

// TestHijackedDeadlineBeforeData checks that a deadline that has passed also counts for data
// that was received before, as with every net.Conn.
func TestHijackedDeadlineBeforeData(t *testing.T) {
	results := make(chan string, 1)
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		nc, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer nc.Close()
		rw.Discard(rw.Reader.Buffered())
		p := make([]byte, 1)
		nc.Read(p) // the rest has come with it
		nc.SetReadDeadline(time.Unix(1, 0))
		_, late := nc.Read(p)
		nc.SetReadDeadline(time.Time{})
		_, again := nc.Read(p)
		results <- fmt.Sprint(late, " ", again, " ", string(p))
	}) {
		t.Run(name, func(t *testing.T) {
			nc, _ := dial(t, serve(t, s))
			io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"+strings.Repeat("x", 4096)+"ab")
			nc.(*net.TCPConn).CloseWrite()
			if got := <-results; got != "i/o timeout <nil> b" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// TestHijackedWriteTellsWhatItTook checks that a write that missed its deadline reports the
// bytes that are sent, so that the caller does not repeat them.
func TestHijackedWriteTellsWhatItTook(t *testing.T) {
	counts := make(chan int, 1)
	for name, s := range kinds(func(w http.ResponseWriter, r *http.Request) {
		nc, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer nc.Close()
		total := 0
		nc.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
		for {
			n, err := nc.Write(make([]byte, 1<<20))
			if total += n; err != nil {
				break
			}
		}
		counts <- total
	}) {
		t.Run(name, func(t *testing.T) {
			nc, _ := dial(t, serve(t, s))
			io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			told := <-counts
			if got, err := io.Copy(io.Discard, nc); int(got) != told || err != nil {
				t.Errorf("got %d bytes of %d, %v", got, told, err)
			}
		})
	}
}

// TestHijackedReadAfterACancelledOne checks that a task can wait again after a scope has
// cancelled its wait.
func TestHijackedReadAfterACancelledOne(t *testing.T) {
	begun := make(chan bool, 1)
	sv := serve(t, &web.Server{Handler: web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		nc, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer nc.Close()
		p := make([]byte, 1)
		spindle.MoveOnAfter(r.Context(), time.Millisecond, func(context.Context) error {
			_, err := nc.Read(p)
			return err
		})
		begun <- true
		if _, err := nc.Read(p); err != nil || p[0] != 'x' {
			t.Errorf("got %q, %v", p, err)
		}
	}))})
	nc, br := dial(t, sv)
	io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	<-begun
	io.WriteString(nc, "x")
	br.ReadByte()
}

// TestShutdownDoesNotWaitForHijackedConnections covers connections that were taken before
// Shutdown and after it. Their handlers continue.
func TestShutdownDoesNotWaitForHijackedConnections(t *testing.T) {
	for _, early := range []bool{true, false} {
		taken, drains, over := make(chan net.Conn, 1), make(chan bool), make(chan bool)
		sv := serve(t, &web.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !early {
				taken <- nil
				<-drains
			}
			nc, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer nc.Close()
			if early {
				taken <- nc
			}
			<-over
			io.WriteString(nc, "still here")
		})})
		nc, br := dial(t, sv)
		idle, _ := dial(t, sv)
		io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		<-taken
		ended := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() { ended <- sv.Shutdown(ctx) }()
		idle.Read(make([]byte, 1)) // its end: the server drains
		if !early {
			close(drains)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		close(over)
		if all, err := io.ReadAll(br); err != nil || string(all) != "still here" {
			t.Errorf("got %q, %v", all, err)
		}
	}
}
