package inspect_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
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
	costRound = 2 * time.Second
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
		over <- o.Run(ctx, func(ctx context.Context) error {
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				for range costTasks {
					n.Go(func(ctx context.Context) error { return spindle.Sleep(ctx, time.Hour) })
				}
				return serve(ctx, func(addr string) { ready <- addr })
			})
		})
	}()
	load := startLoad(b, <-ready, strings.HasSuffix(b.Name(), "HTTP"))
	load.round(costRound / 2) // warm up
	plain := load.round(costRound)
	off, ratios, cpu := []sample{plain}, []float64{}, []float64{}
	for range b.N {
		if !paired {
			off = append(off, load.round(costRound))
			continue
		}
		closePage := openPage(b)
		watched := load.round(costRound)
		closePage()
		next := load.round(costRound)
		off = append(off, next)
		ratios = append(ratios, 2*watched.rate/(plain.rate+next.rate))
		cpu = append(cpu, 2*watched.cpu/(plain.cpu+next.cpu))
		plain = next
	}
	rates := make([]float64, len(off))
	for i, s := range off {
		rates[i] = s.rate
	}
	b.ReportMetric(median(rates), "ops/s")
	if paired {
		b.ReportMetric(median(ratios), "ratio")
		b.ReportMetric(median(cpu), "cpu/op-ratio")
	}
	load.end()
	end()
	<-over
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

// openPage does what page.html does: it receives four events a second, polls the tasks each
// second, and every two seconds one of the other views. It returns when the first answers
// have come.
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
	const tasks = "/api/v1/tasks?sort=tree&offset=0&limit=200"
	ask(tasks)
	ended := make(chan struct{}, 2)
	go func() { ask("/api/v1/events?every=250"); ended <- struct{}{} }()
	go func() {
		defer func() { ended <- struct{}{} }()
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		views := []string{"sockets", "waits", "requests", "sync", "blocked", "ended"}
		for n := 0; ; n++ {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			ask(tasks)
			if n%2 == 0 {
				ask("/api/v1/" + views[n/2%len(views)] + "?limit=200")
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

// sample is what was measured in a round.
type sample struct {
	rate float64 // operations each second
	cpu  float64 // seconds of the process for each operation, clients included
}

// round measures for a time.
func (l *load) round(d time.Duration) sample {
	before, began, cpu := l.done.Load(), time.Now(), cpuTime()
	<-time.NewTimer(d).C
	n := float64(l.done.Load() - before)
	return sample{rate: n / time.Since(began).Seconds(), cpu: (cpuTime() - cpu).Seconds() / n}
}

// cpuTime returns the CPU time of the process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (l *load) end() {
	for _, c := range l.conns {
		c.Close()
	}
	for range l.conns {
		<-l.ended
	}
}
