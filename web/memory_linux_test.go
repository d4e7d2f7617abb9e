package web_test

import (
	"errors"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/web"
)

// steps starts a server on a loop that only the test steps, so that nothing else runs.
func steps(t testing.TB, s *web.Server) (*loop.Loop, *web.Service) {
	t.Helper()
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sv, err := s.Listen(l, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		done := false
		sv.Drain(func() { done = true })
		for !done {
			if _, err := l.RunOnce(-1); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l, sv
}

// sockets makes n client connections that take next to no memory in this process.
func sockets(t testing.TB, sv *web.Service, n int) []int {
	t.Helper()
	fds := make([]int, 0, n)
	t.Cleanup(func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	})
	a := &unix.SockaddrInet4{Port: sv.Addr().(*net.TCPAddr).Port, Addr: [4]byte{127, 0, 0, 1}}
	for range n {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		fds = append(fds, fd)
		if err := errors.Join(unix.Connect(fd, a), unix.SetNonblock(fd, true)); err != nil {
			t.Fatal(err)
		}
	}
	return fds
}

// ask sends a request and steps the loop until n bytes have come back.
func ask(t testing.TB, l *loop.Loop, fd int, request, buf []byte, n int) int {
	if _, err := unix.Write(fd, request); err != nil {
		t.Fatal(err)
	}
	got := 0
	for got < n {
		if _, err := l.RunOnce(0); err != nil {
			t.Fatal(err)
		}
		k, err := unix.Read(fd, buf[got:])
		if err == unix.EAGAIN {
			continue
		}
		if err != nil || k == 0 {
			t.Fatalf("after %d bytes: %v", got, err)
		}
		got += k
	}
	return got
}

const plaintext = "GET /plaintext HTTP/1.1\r\nHost: localhost\r\nUser-Agent: test\r\n\r\n"

func lean(c *web.LeanCtx) {
	c.AddHeader("Content-Type", "text/plain")
	c.AddHeader("X-Frame-Options", "DENY")
	if c.Header("User-Agent") != nil {
		c.WriteString("Hello, World!")
	}
}

// TestLeanRequestsDoNotAllocate covers single and pipelined requests.
func TestLeanRequestsDoNotAllocate(t *testing.T) {
	l, sv := steps(t, &web.Server{Lean: web.LeanRoutes(map[string]func(*web.LeanCtx){"/plaintext": lean})})
	fd := sockets(t, sv, 1)[0]
	buf := make([]byte, 64<<10)
	one := ask(t, l, fd, []byte(plaintext), buf, 1)
	for _, depth := range []int{1, 16} {
		request := []byte(strings.Repeat(plaintext, depth))
		run := func() { ask(t, l, fd, request, buf, depth*one) }
		run()
		if n := testing.AllocsPerRun(200, run); n != 0 {
			t.Errorf("%v allocations for %d requests", n, depth)
		}
	}
	if got := string(buf[:one]); !strings.HasSuffix(got, "\r\n\r\nHello, World!") {
		t.Errorf("got %q", got)
	}
}

// TestManyRequestsAtOnceDoNotKeepTheLoop checks that other callbacks have a turn between them.
func TestManyRequestsAtOnceDoNotKeepTheLoop(t *testing.T) {
	var l *loop.Loop
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("hello")) })
	const requests = 1000
	for name, s := range map[string]*web.Server{"lean": {}, "inline": {Handler: web.Inline(h)}} {
		t.Run(name, func(t *testing.T) {
			answered, turn := 0, 0
			s.Lean = func(c *web.LeanCtx) bool {
				if answered++; answered == 1 {
					l.CallSoon(func() { turn = answered })
				}
				if s.Handler != nil {
					return false
				}
				lean(c)
				return true
			}
			var sv *web.Service
			l, sv = steps(t, s)
			fd := sockets(t, sv, 1)[0]
			buf := make([]byte, requests*512)
			request := []byte(strings.Repeat("GET / HTTP/1.1\r\nHost: a\r\n\r\n", requests))
			ask(t, l, fd, request, buf, 1)
			for answered < requests {
				l.RunOnce(0)
				unix.Read(fd, buf)
			}
			if turn == 0 || turn > 200 {
				t.Errorf("%d requests were answered before other callbacks had a turn", turn)
			}
		})
	}
}

// TestIdleConnectionIsSmall measures a keep-alive connection after a request of each kind.
func TestIdleConnectionIsSmall(t *testing.T) {
	const most = 600
	conns := short.Of(1000)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("hello")) })
	for name, s := range map[string]*web.Server{
		"lean":   {Lean: func(c *web.LeanCtx) bool { lean(c); return true }},
		"inline": {Handler: web.Inline(h)},
		"worker": {Handler: h},
	} {
		t.Run(name, func(t *testing.T) {
			l, sv := steps(t, s)
			buf := make([]byte, 4<<10)
			grow := func() {
				for _, fd := range sockets(t, sv, conns) {
					ask(t, l, fd, []byte(plaintext), buf, 1)
				}
			}
			grow() // pools and tables
			before := heapInUse()
			grow()
			if each := (heapInUse() - before) / int64(conns); each > most {
				t.Errorf("%d bytes for each", each)
			} else {
				t.Logf("%d bytes for each", each)
			}
		})
	}
}

// TestFilesTakeNoMemory checks that the system sends files.
func TestFilesTakeNoMemory(t *testing.T) {
	dir, large := files(t)
	l, sv := steps(t, &web.Server{Handler: web.Inline(http.FileServer(http.Dir(dir)))})
	fd := sockets(t, sv, 1)[0]
	request := []byte("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n")
	buf := make([]byte, len(large)+4096)
	size := ask(t, l, fd, request, buf, len(large)+100)
	const times, most = 20, 16 << 10
	before := allocated()
	for range times {
		ask(t, l, fd, request, buf, size)
	}
	if each := (allocated() - before) / times; each > most {
		t.Errorf("%d bytes were allocated to send %d", each, len(large))
	}
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func BenchmarkRequests(b *testing.B) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Write([]byte("Hello, World!"))
	})
	mux := http.NewServeMux()
	mux.Handle("/plaintext", web.Inline(h))
	for _, kind := range []struct {
		name  string
		s     *web.Server
		depth int // requests at once
	}{
		{"lean", &web.Server{Lean: web.LeanRoutes(map[string]func(*web.LeanCtx){"/plaintext": lean})}, 1},
		{"lean-16", &web.Server{Lean: web.LeanRoutes(map[string]func(*web.LeanCtx){"/plaintext": lean})}, 16},
		{"inline", &web.Server{Handler: web.Inline(h)}, 1},
		{"mux", &web.Server{Handler: mux}, 1},
	} {
		b.Run(kind.name, func(b *testing.B) {
			l, sv := steps(b, kind.s)
			fd := sockets(b, sv, 1)[0]
			buf := make([]byte, 4<<10)
			one := ask(b, l, fd, []byte(plaintext), buf, 1)
			request := []byte(strings.Repeat(plaintext, kind.depth))
			b.ReportAllocs()
			for b.Loop() {
				ask(b, l, fd, request, buf, kind.depth*one)
			}
		})
	}
}
