//go:build linux

// Package load is a closed-loop load generator for echo and HTTP servers.
//
// It drives many connections from one thread with edge-triggered epoll and raw system
// calls on non-blocking sockets. It allocates nothing while it measures. So, on its own
// core, it costs less than the servers it measures. Every answer is checked: a server
// that loses, reorders or changes bytes causes an error, not a good figure.
package load

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/spindleloop/spindle/bench/proc"
)

// A Plan describes the load on a server. The load process receives it as JSON.
type Plan struct {
	// Addr is the server's IPv4 loopback address, and Pid its process.
	Addr string
	Pid  int
	// Conns connections each keep Depth messages of SizeBytes in flight: they send a
	// burst of Depth messages, and the next one when all are answered.
	Conns     int
	SizeBytes int
	Depth     int
	// If Path is not empty, the messages are HTTP requests for it: GET, or POST of Upload.
	// The server must answer each with a response that ends in Body.
	Path, Body          string
	Upload, ContentType string
	// WebSocket sends WebSocket messages of up to 125 bytes.
	WebSocket bool
	// Idle is the number of further connections that echo one message and then only
	// stay open.
	Idle int
	// Slow is the number of further connections that send only the beginning of a
	// request.
	Slow int
	// Warmup is the time of load before the measured Window. With a zero Window the
	// plan only opens the connections.
	Warmup, Window time.Duration
	// MemorySteps are ascending numbers of idle connections at which the server's
	// memory is read. They are opened instead of Idle.
	MemorySteps []int
	// Client is a client of the standard library, for what the generator does not speak: "tls" or
	// "udp" echoes, and "http" makes requests. With MemorySteps it is "tls", "https", "h2c" or "h2".
	Client string
	// Rate is the number of requests per second of the client "http". Zero means as many as are answered.
	Rate float64
	// Rest, if it is not zero, is how long all connections are idle. Then each is tried again.
	Rest time.Duration
	// Spin polls without ever sleeping. It keeps the cost of waking the load process
	// out of the server's writes, and needs a separate core.
	Spin bool
}

// A Result has the figures that Run measured.
type Result struct {
	// Requests is the number of answers within the time Wall. The server used the CPU
	// time CPU for them.
	Requests  uint64
	Wall, CPU time.Duration
	// P50, P99 and Max are the latencies of a burst of Depth messages.
	P50, P99, Max time.Duration
	// LoadBusy is the share of the window in which the load generator was busy.
	LoadBusy float64
	// RSSBytes is the server's resident memory at each of MemorySteps.
	RSSBytes []int64
	// TrimmedBytes is that after the server has returned what a collection frees, and LiveBytes
	// its live objects and stacks. Only HTTP servers written in Go have them.
	TrimmedBytes, LiveBytes []int64
	// Opened is how long it took to open all connections, RestCPU the server's CPU time in Rest, and
	// Again how long it took to try all connections after it.
	Opened, RestCPU, Again time.Duration
}

// PerCPUSecond returns the number of answers for each second of the server's CPU time.
func (r Result) PerCPUSecond() float64 { return float64(r.Requests) / r.CPU.Seconds() }

// PerSecond returns the number of answers per second.
func (r Result) PerSecond() float64 { return float64(r.Requests) / r.Wall.Seconds() }

// Utilisation returns the share of the window in which the server was busy.
func (r Result) Utilisation() float64 { return r.CPU.Seconds() / r.Wall.Seconds() }

// settleLimit limits the wait for a server to become idle before its memory is read.
const settleLimit = time.Second

// Run performs the plan. Its figures are meaningful only if it is alone on its core.
func Run(p Plan) (Result, error) {
	if err := p.check(); err != nil {
		return Result{}, err
	}
	if p.Client != "" {
		return runClient(p)
	}
	total := p.Conns + p.Idle
	if n := len(p.MemorySteps); n > 0 {
		total += p.MemorySteps[n-1]
	}
	c, err := newClient(p, total)
	if err != nil {
		return Result{}, err
	}
	defer c.close()
	var r Result
	for _, step := range p.MemorySteps {
		begun := time.Now()
		if err := c.open(step - len(c.conns)); err != nil {
			return Result{}, err
		}
		r.Opened += time.Since(begun)
		if err := r.readMemory(p.Pid); err != nil {
			return Result{}, err
		}
	}
	if p.Rest > 0 {
		if err := c.rest(p, &r); err != nil {
			return Result{}, err
		}
	}
	if err := c.open(p.Idle + p.Conns); err != nil {
		return Result{}, err
	}
	if err := c.openSlow(p.Slow); err != nil {
		return Result{}, err
	}
	if p.Window > 0 {
		if err := c.measure(p, &r); err != nil {
			return Result{}, err
		}
	}
	return r, nil
}

// readMemory appends the server's resident memory when it is idle.
func (r *Result) readMemory(pid int) error {
	if err := proc.Settle(pid, settleLimit); err != nil {
		return err
	}
	rss, err := proc.RSS(pid)
	r.RSSBytes = append(r.RSSBytes, rss)
	return err
}

// rest leaves all connections idle for a while, and then sends a message on each.
func (c *client) rest(p Plan, r *Result) error {
	before, err := proc.CPUTime(p.Pid)
	if err != nil {
		return err
	}
	time.Sleep(p.Rest)
	after, err := proc.CPUTime(p.Pid)
	if err != nil {
		return err
	}
	r.RestCPU = after - before
	begun := time.Now()
	for i := range c.conns {
		if err := c.send(i, 1); err != nil {
			return err
		}
		if c.waiting == openTogether || i == len(c.conns)-1 {
			if err := c.drain(); err != nil {
				return err
			}
		}
	}
	r.Again = time.Since(begun)
	return nil
}

func (p Plan) check() error {
	addr, err := netip.ParseAddrPort(p.Addr)
	switch {
	case err != nil:
		return fmt.Errorf("load: %w", err)
	case !addr.Addr().Is4() || !addr.Addr().IsLoopback():
		// The generator binds to 127.0.0.x and must never reach another machine.
		return fmt.Errorf("load: %s is not an IPv4 loopback address", p.Addr)
	case p.Path == "" && p.Client == "" && p.SizeBytes < headerBytes:
		return fmt.Errorf("load: a message needs %d bytes for its number", headerBytes)
	case p.WebSocket && p.SizeBytes > 125:
		return errors.New("load: WebSocket messages must not exceed 125 bytes")
	case p.Depth < 1:
		return errors.New("load: depth must be at least 1")
	case p.Window > 0 && p.Conns < 1:
		return errors.New("load: no connections to measure with")
	case p.Client != "" && !slices.Contains([]string{"tls", "udp", "http", "https", "h2c", "h2"}, p.Client):
		return fmt.Errorf("load: no client %q", p.Client)
	}
	return nil
}

// patience is how long a window may become if the server answers nothing: on a busy machine
// it may get no CPU for a short one.
const patience = 5 * time.Second

// measure warms the server up and then measures one window.
func (c *client) measure(p Plan, r *Result) error {
	active := len(c.conns) - p.Conns
	for i := active; i < len(c.conns); i++ {
		if err := c.send(i, p.Depth); err != nil {
			return err
		}
	}
	c.depth = p.Depth
	if err := c.runUntil(c.now() + p.Warmup); err != nil {
		return err
	}
	c.latency.Reset()
	c.idle = 0
	cpu, err := proc.CPUTime(p.Pid)
	if err != nil {
		return err
	}
	start := c.now()
	for end := p.Window; end == p.Window || c.latency.Count() == 0 && end < patience; end += p.Window {
		if err := c.runUntil(start + end); err != nil {
			return err
		}
	}
	cpuEnd, err := proc.CPUTime(p.Pid)
	if err != nil {
		return err
	}
	r.Wall = c.now() - start
	r.CPU = cpuEnd - cpu
	r.Requests = c.latency.Count() * uint64(p.Depth)
	r.LoadBusy = 1 - c.idle.Seconds()/r.Wall.Seconds()
	r.P50 = c.latency.Quantile(0.50)
	r.P99 = c.latency.Quantile(0.99)
	r.Max = c.latency.Max()
	if r.Requests == 0 {
		return fmt.Errorf("load: the server answered nothing in %v", r.Wall)
	}
	if r.CPU <= 0 {
		return fmt.Errorf("load: the server's CPU clock did not advance in a window of %v", p.Window)
	}
	return nil
}
