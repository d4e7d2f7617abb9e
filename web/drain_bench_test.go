package web_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/web"
)

// BenchmarkDrain counts the requests that are lost when a server drains under load: clients that
// connected, and got no answer. Each request has a connection of its own. A client with a connection
// that is refused goes to another server, and loses nothing.
//
//	go test ./web -run '^$' -bench '^BenchmarkDrain$' -benchtime 30x
func BenchmarkDrain(b *testing.B) {
	done := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "done") })
	onLoops := func(loops int) func(b *testing.B) (net.Addr, func() error) {
		return func(b *testing.B) (net.Addr, func() error) {
			g, err := loop.NewGroup(loops, loop.Options{})
			if err != nil {
				b.Fatal(err)
			}
			sv, err := (&web.Server{Handler: done, DrainIdle: time.Second}).ListenGroup(g, "tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			ran := make(chan error, 1)
			go func() { ran <- g.Run(context.Background()) }()
			return sv.Addr(), func() error {
				sv.Drain(g.Stop)
				return errors.Join(<-ran, g.Close())
			}
		}
	}
	onNetHTTP := func(b *testing.B) (net.Addr, func() error) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		s := &http.Server{Handler: done}
		go s.Serve(ln)
		return ln.Addr(), func() error { return s.Shutdown(context.Background()) }
	}
	for _, kind := range []struct {
		name  string
		start func(b *testing.B) (net.Addr, func() error)
	}{{"one loop", onLoops(1)}, {"two loops", onLoops(2)}, {"net/http", onNetHTTP}} {
		b.Run(kind.name, func(b *testing.B) {
			var answered, lost int64
			for b.Loop() {
				addr, drain := kind.start(b)
				a, l, err := requestsAroundADrain(addr, drain)
				if err != nil {
					b.Fatal(err)
				}
				answered, lost = answered+a, lost+l
			}
			b.ReportMetric(float64(lost), "lost")
			b.ReportMetric(float64(answered), "answered")
		})
	}
}

// requestsAroundADrain makes requests, each on a connection of its own, until connections are refused. It
// begins the drain when some are answered.
func requestsAroundADrain(addr net.Addr, drain func() error) (answered, lost int64, err error) {
	var good, bad atomic.Int64
	begin := make(chan struct{})
	some := sync.OnceFunc(func() { close(begin) })
	var clients sync.WaitGroup
	for range 16 {
		clients.Go(func() {
			defer some()
			for {
				nc, err := net.Dial("tcp", addr.String())
				if errors.Is(err, syscall.ECONNREFUSED) {
					return
				}
				if err != nil || !isAnswered(nc) {
					bad.Add(1)
				} else if good.Add(1) == 200 {
					some()
				}
				if err == nil {
					nc.Close()
				}
			}
		})
	}
	<-begin
	err = drain()
	clients.Wait()
	return good.Load(), bad.Load(), err
}

// isAnswered makes a request, and reports whether it has an answer.
func isAnswered(nc net.Conn) bool {
	nc.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"); err != nil {
		return false
	}
	res, err := http.ReadResponse(bufio.NewReader(nc), nil)
	if err != nil {
		return false
	}
	body, err := io.ReadAll(res.Body)
	return err == nil && string(body) == "done"
}
