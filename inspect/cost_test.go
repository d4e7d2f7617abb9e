package inspect_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/inspect"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/stream"
	"github.com/spindleloop/spindle/web"
)

// The benchmarks here measure what an open page costs the program that it shows: 200 busy
// connections on a loop with 10,000 other tasks. Rounds with and without a page alternate;
// the metric "ratio" is the median of the ratios of neighbouring rounds.
//
//	go test ./inspect -run '^$' -bench PageOpen -benchtime 20x
//
// With the benchmarks of name Off, two builds can be compared.

const (
	costConns = 200
	costTasks = 10_000
	costRound = 300 * time.Millisecond
)

func BenchmarkPageOpenHTTP(b *testing.B) { benchmarkCost(b, serveHTTP, true) }
func BenchmarkPageOpenEcho(b *testing.B) { benchmarkCost(b, serveEcho, true) }
func BenchmarkOffHTTP(b *testing.B)      { benchmarkCost(b, serveHTTP, false) }
func BenchmarkOffEcho(b *testing.B)      { benchmarkCost(b, serveEcho, false) }

// service serves until its context ends. It calls ready with its address.
type service func(ctx context.Context, ready func(string)) error

func serveHTTP(ctx context.Context, ready func(string)) error {
	h := web.Inline(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	s := &web.Server{Handler: h, OnListen: func(a net.Addr) { ready(a.String()) }}
	return s.ListenAndServe(ctx, "127.0.0.1:0")
}

func serveEcho(ctx context.Context, ready func(string)) error {
	ln, err := stream.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ready(ln.Addr().String())
	return stream.Serve(ctx, ln, func(_ context.Context, c *stream.Conn) error {
		buf := make([]byte, 256)
		for {
			n, err := c.Read(buf)
			if err != nil {
				return nil
			}
			if _, err := c.Write(buf[:n]); err != nil {
				return nil
			}
		}
	})
}

func benchmarkCost(b *testing.B, serve service, paired bool) {
	ctx, end := context.WithCancel(b.Context())
	ready, over := make(chan string, 1), make(chan error, 1)
	go func() {
		o := spindle.Options{Loop: loop.Options{Name: b.Name(), OnBlocked: func(loop.Blocked) {}}}
		over <- spindle.RunWith(ctx, o, func(ctx context.Context) error {
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				for range costTasks {
					n.Go(func(ctx context.Context) error { return spindle.Sleep(ctx, time.Hour) })
				}
				return serve(ctx, func(addr string) { ready <- addr })
			})
		})
	}()
	load := startLoad(b, <-ready, b.Name() == "BenchmarkPageOpenHTTP" || b.Name() == "BenchmarkOffHTTP")
	load.round(costRound) // warm up
	var off, ratios []float64
	for range b.N {
		plain := load.round(costRound)
		off = append(off, plain)
		if paired {
			closePage := openPage(b)
			watched := load.round(costRound)
			closePage()
			ratios = append(ratios, 2*watched/(plain+load.round(costRound)))
		}
	}
	slices.Sort(off)
	b.ReportMetric(off[len(off)/2], "ops/s")
	if paired {
		slices.Sort(ratios)
		b.ReportMetric(ratios[len(ratios)/2], "ratio")
	}
	load.end()
	end()
	<-over
}

// openPage does what an open page does: it receives events and polls the tasks and sockets.
func openPage(b *testing.B) (closePage func()) {
	s, err := inspect.Serve("127.0.0.1:0", inspect.Options{})
	if err != nil {
		b.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}}
	ctx, end := context.WithCancel(b.Context())
	ask := func(path string) {
		r, _ := http.NewRequestWithContext(ctx, "GET", "http://"+s.Addr().String()+path, nil)
		if res, err := client.Do(r); err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
	}
	ended := make(chan struct{}, 2)
	go func() { ask("/api/v1/events"); ended <- struct{}{} }()
	go func() {
		defer func() { ended <- struct{}{} }()
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			ask("/api/v1/tasks?sort=tree&limit=100")
			ask("/api/v1/sockets?limit=100")
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		end()
		<-ended
		<-ended
		client.CloseIdleConnections()
		s.Close()
	}
}

// load is clients that send one request after the other.
type load struct {
	done  atomic.Int64
	conns []net.Conn
	ended chan struct{}
}

func startLoad(b *testing.B, addr string, isHTTP bool) *load {
	l := &load{ended: make(chan struct{}, costConns)}
	for range costConns {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		l.conns = append(l.conns, c)
		go func() {
			defer func() { l.ended <- struct{}{} }()
			if isHTTP {
				l.askHTTP(c)
			} else {
				l.askEcho(c)
			}
		}()
	}
	return l
}

func (l *load) askEcho(c net.Conn) {
	buf := make([]byte, 64)
	for {
		if _, err := c.Write(buf); err != nil {
			return
		}
		if _, err := io.ReadFull(c, buf); err != nil {
			return
		}
		l.done.Add(1)
	}
}

func (l *load) askHTTP(c net.Conn) {
	r := bufio.NewReader(c)
	for {
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			return
		}
		for line := "-"; line != "\r\n"; {
			var err error
			if line, err = r.ReadString('\n'); err != nil {
				return
			}
		}
		if _, err := r.Discard(len("hello")); err != nil {
			return
		}
		l.done.Add(1)
	}
}

// round returns how many operations there are each second, over d.
func (l *load) round(d time.Duration) float64 {
	before, began := l.done.Load(), time.Now()
	<-time.NewTimer(d).C
	return float64(l.done.Load()-before) / time.Since(began).Seconds()
}

func (l *load) end() {
	for _, c := range l.conns {
		c.Close()
	}
	for range l.conns {
		<-l.ended
	}
}
