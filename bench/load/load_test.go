//go:build linux

package load_test

import (
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle/bench/load"
)

func serve(t *testing.T, handle func(net.Conn)) string {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				handle(conn)
			}()
		}
	}()
	return ln.Addr().String()
}

func echo(conn net.Conn) { io.Copy(conn, conn) }

// plan returns a short plan for a server in this process. It polls without sleeping,
// because a sleep in a raw system call would block the server's goroutines.
func plan(addr string) load.Plan {
	return load.Plan{
		Addr: addr, Pid: os.Getpid(), Conns: 10, SizeBytes: 64, Depth: 1,
		Warmup: 10 * time.Millisecond, Window: 100 * time.Millisecond, Spin: true,
	}
}

func TestRunAgainstEcho(t *testing.T) {
	addr := serve(t, echo)
	for _, depth := range []int{1, 16} {
		p := plan(addr)
		p.Depth = depth
		p.Idle = 70 // more than openTogether
		r, err := load.Run(p)
		if err != nil {
			t.Fatalf("depth %d: %v", depth, err)
		}
		if r.Requests == 0 || r.Requests%uint64(depth) != 0 {
			t.Errorf("depth %d: %d requests", depth, r.Requests)
		}
		if r.Wall < p.Window || r.CPU <= 0 || r.PerCPUSecond() <= 0 || r.Utilisation() <= 0 {
			t.Errorf("depth %d: wall %v, CPU %v", depth, r.Wall, r.CPU)
		}
		if r.P50 <= 0 || r.P50 > r.P99 || r.P99 > r.Max || r.Max > r.Wall+p.Warmup {
			t.Errorf("depth %d: p50 %v, p99 %v, max %v", depth, r.P50, r.P99, r.Max)
		}
	}
}

// TestRunWaitsForTheFirstAnswer: a window becomes longer if the server gets no CPU in it.
func TestRunWaitsForTheFirstAnswer(t *testing.T) {
	const delay = 300 * time.Millisecond
	p := plan(serve(t, func(c net.Conn) {
		io.CopyN(c, c, 64) // when the connection is opened
		time.Sleep(delay)
		echo(c)
	}))
	r, err := load.Run(p)
	if err != nil || r.Requests == 0 || r.Wall < 2*p.Window {
		t.Errorf("%d requests in %v, %v", r.Requests, r.Wall, err)
	}
}

func TestRunReadsMemoryAtEachStep(t *testing.T) {
	p := plan(serve(t, echo))
	p.Conns, p.Window = 0, 0
	p.MemorySteps = []int{10, 100}
	r, err := load.Run(p)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.RSSBytes) != 2 || r.RSSBytes[0] <= 0 || r.RSSBytes[1] <= 0 {
		t.Errorf("RSS %v", r.RSSBytes)
	}
}

// A wrong answer is an error, never a figure.
func TestRunRejectsServersThatDoNotEcho(t *testing.T) {
	tests := []struct {
		name   string
		handle func(net.Conn)
		want   string
	}{
		{"changes a byte", func(c net.Conn) {
			buf := make([]byte, 64)
			for {
				n, err := c.Read(buf)
				if err != nil {
					return
				}
				buf[n-1]++
				c.Write(buf[:n])
			}
		}, "came back changed"},
		{"repeats the first message", func(c net.Conn) {
			buf := make([]byte, 64)
			io.ReadFull(c, buf)
			for {
				c.Write(buf)
				if _, err := io.ReadFull(c, make([]byte, 64)); err != nil {
					return
				}
			}
		}, "came back changed"},
		{"closes", func(c net.Conn) { c.Read(make([]byte, 64)) }, "closed"},
		{"answers twice", func(c net.Conn) {
			buf := make([]byte, 64)
			for {
				n, err := c.Read(buf)
				if err != nil {
					return
				}
				c.Write(buf[:n])
				c.Write(buf[:n])
			}
		}, "came back changed"},
	}
	for _, tt := range tests {
		_, err := load.Run(plan(serve(t, tt.handle)))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want one with %q", tt.name, err, tt.want)
		}
	}
}

func TestRunRejectsInvalidPlans(t *testing.T) {
	tests := []struct {
		name   string
		change func(*load.Plan)
		want   string
	}{
		{"another machine", func(p *load.Plan) { p.Addr = "192.0.2.1:80" }, "not an IPv4 loopback"},
		{"no port", func(p *load.Plan) { p.Addr = "127.0.0.1" }, "load:"},
		{"too small for a number", func(p *load.Plan) { p.SizeBytes = 8 }, "16 bytes"},
		{"no depth", func(p *load.Plan) { p.Depth = 0 }, "depth"},
		{"no connections", func(p *load.Plan) { p.Conns = 0 }, "no connections"},
	}
	for _, tt := range tests {
		p := plan("127.0.0.1:1")
		tt.change(&p)
		if _, err := load.Run(p); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want one with %q", tt.name, err, tt.want)
		}
	}
}
