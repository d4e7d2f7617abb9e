//go:build linux

// Package load is a closed-loop load generator for echo and HTTP servers.
//
// It drives many connections from one thread with edge-triggered epoll and raw
// system calls on non-blocking sockets. Nothing is allocated while it
// measures, so that with a core of its own it stays cheaper than the servers
// it measures. Every echo is compared with what was sent: a server that loses,
// mixes up or changes bytes is an error, not a good figure.
package load

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/spindleloop/spindle/bench/proc"
)

// A Plan says what to do to a server. It travels to the load process as JSON.
type Plan struct {
	// Addr is the server's address, an IPv4 loopback one, and Pid its process.
	Addr string
	Pid  int
	// Conns connections each keep Depth messages of SizeBytes in flight: all
	// are sent at once, and again when all have come back.
	Conns     int
	SizeBytes int
	Depth     int
	// Path, if it is not empty, has the messages be GET requests for it, of
	// whatever size they are. Each is to be answered with Body.
	Path, Body string
	// WebSocket has the messages be those of WebSockets, of up to 125 bytes.
	WebSocket bool
	// Idle further connections echo one message and then only stay open.
	Idle int
	// Warmup runs before the measured Window. A zero Window only opens the
	// connections.
	Warmup, Window time.Duration
	// MemorySteps are ascending numbers of idle connections at which the
	// server's memory is read; they are opened instead of Idle.
	MemorySteps []int
	// Spin polls without ever sleeping. It keeps the cost of waking the load
	// process out of the server's writes, and needs a core of its own.
	Spin bool
}

// A Result is what a Plan measured.
type Result struct {
	// Requests were answered within Wall, for which the server used CPU.
	Requests  uint64
	Wall, CPU time.Duration
	// P50, P99 and Max are the latencies of a burst of Depth messages.
	P50, P99, Max time.Duration
	// LoadBusy is the share of the window in which the load generator itself
	// had something to do.
	LoadBusy float64
	// RSSBytes is the server's resident memory at each of MemorySteps.
	RSSBytes []int64
}

// PerCPUSecond is the number of requests answered for each second of the
// server's CPU time.
func (r Result) PerCPUSecond() float64 { return float64(r.Requests) / r.CPU.Seconds() }

// PerSecond is the number of requests answered each second.
func (r Result) PerSecond() float64 { return float64(r.Requests) / r.Wall.Seconds() }

// Utilisation is the share of the window in which the server worked.
func (r Result) Utilisation() float64 { return r.CPU.Seconds() / r.Wall.Seconds() }

// settleLimit bounds the wait for a server to come to rest before its memory is read.
const settleLimit = time.Second

// Run carries out the plan. It must be alone on its thread's core for its
// figures to mean anything.
func Run(p Plan) (Result, error) {
	if err := p.check(); err != nil {
		return Result{}, err
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
		if err := c.open(step - len(c.conns)); err != nil {
			return Result{}, err
		}
		if err := proc.Settle(p.Pid, settleLimit); err != nil {
			return Result{}, err
		}
		rss, err := proc.RSS(p.Pid)
		if err != nil {
			return Result{}, err
		}
		r.RSSBytes = append(r.RSSBytes, rss)
	}
	if err := c.open(p.Idle + p.Conns); err != nil {
		return Result{}, err
	}
	if p.Window > 0 {
		if err := c.measure(p, &r); err != nil {
			return Result{}, err
		}
	}
	return r, nil
}

func (p Plan) check() error {
	addr, err := netip.ParseAddrPort(p.Addr)
	switch {
	case err != nil:
		return fmt.Errorf("load: %w", err)
	case !addr.Addr().Is4() || !addr.Addr().IsLoopback():
		// The generator binds to 127.0.0.x, and must never reach another machine.
		return fmt.Errorf("load: %s is not an IPv4 loopback address", p.Addr)
	case p.Path == "" && p.SizeBytes < headerBytes:
		return fmt.Errorf("load: a message needs %d bytes for its number", headerBytes)
	case p.WebSocket && p.SizeBytes > 125:
		return errors.New("load: a WebSocket's message may have 125 bytes here")
	case p.Depth < 1:
		return errors.New("load: depth must be at least 1")
	case p.Window > 0 && p.Conns < 1:
		return errors.New("load: no connections to measure with")
	}
	return nil
}

// measure warms up and then counts for one window.
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
	if err := c.runUntil(start + p.Window); err != nil {
		return err
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
	if r.Requests == 0 || r.CPU <= 0 {
		return errors.New("load: the server answered nothing")
	}
	return nil
}
