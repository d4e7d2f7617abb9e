//go:build linux

package load

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/spindleloop/spindle/bench/proc"
)

// runClient performs a plan with clients of the standard library. They cost more than the
// generator, so only figures for each second of the server's CPU time compare.
func runClient(p Plan) (r Result, err error) {
	switch {
	case len(p.MemorySteps) > 0:
		return r, r.hold(p)
	case p.Client == "http":
		return r, r.requests(p)
	}
	return r, r.bursts(p)
}

// insecure accepts the certificates of servers that make their own.
func insecure() *tls.Config { return &tls.Config{InsecureSkipVerify: true} }

// during counts what the server uses while measure runs.
func (r *Result) during(pid int, measure func() error) error {
	self, err := proc.CPUTime(os.Getpid())
	if err != nil {
		return err
	}
	before, err := proc.CPUTime(pid)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := measure(); err != nil {
		return err
	}
	r.Wall = time.Since(start)
	after, err := proc.CPUTime(pid)
	if err != nil {
		return err
	}
	selfAfter, err := proc.CPUTime(os.Getpid())
	r.CPU, r.LoadBusy = after-before, (selfAfter-self).Seconds()/r.Wall.Seconds()
	return err
}

// bursts sends a message on each connection and then receives all answers, again and again.
func (r *Result) bursts(p Plan) error {
	conns := make([]net.Conn, p.Conns)
	for i := range conns {
		var err error
		if p.Client == "tls" {
			conns[i], err = tls.Dial("tcp", p.Addr, insecure())
		} else {
			conns[i], err = net.Dial(p.Client, p.Addr)
		}
		if err != nil {
			return fmt.Errorf("load: connection %d: %w", i, err)
		}
		defer conns[i].Close()
	}
	message, answer := bytes.Repeat([]byte("spindle "), p.SizeBytes/8+1)[:p.SizeBytes], make([]byte, p.SizeBytes)
	var latency Histogram
	until := func(d time.Duration) error {
		for begun := time.Now(); time.Since(begun) < d; {
			sent := time.Now()
			for i, c := range conns {
				c.SetDeadline(sent.Add(stuckLimit))
				if _, err := c.Write(message); err != nil {
					return fmt.Errorf("load: connection %d: %w", i, err)
				}
			}
			for i, c := range conns {
				if _, err := io.ReadFull(c, answer); err != nil {
					return fmt.Errorf("load: connection %d: %w", i, err)
				}
				if !bytes.Equal(message, answer) {
					return fmt.Errorf("load: connection %d: the message came back changed", i)
				}
				latency.Record(time.Since(sent))
			}
		}
		return nil
	}
	if err := until(p.Warmup); err != nil {
		return err
	}
	latency.Reset()
	err := r.during(p.Pid, func() error { return until(p.Window) })
	r.take(&latency)
	return err
}

func (r *Result) take(h *Histogram) {
	r.Requests, r.P50, r.P99, r.Max = h.Count(), h.Quantile(0.50), h.Quantile(0.99), h.Max()
}

// requests makes HTTP requests, one at a time on each connection. With a Rate each connection has a
// schedule: a request that cannot be sent at its time, because the one before is not answered, counts
// from its time in the schedule. So a server that stops for a while is charged for every request that
// should have been sent meanwhile. A request that is late only because the client's timer was counts
// from when it is sent.
func (r *Result) requests(p Plan) error {
	var latency Histogram
	var mu sync.Mutex
	send := func(first, end time.Time, interval time.Duration) error {
		nc, err := net.Dial("tcp", p.Addr)
		if err != nil {
			return fmt.Errorf("load: %w", err)
		}
		defer nc.Close()
		nc.SetDeadline(end.Add(2 * stuckLimit))
		request, br := []byte(p.request()), bufio.NewReader(nc)
		for due := first; due.Before(end); due = due.Add(interval) {
			from := due
			if interval == 0 {
				due, from = time.Now(), time.Now()
			} else if wait := time.Until(due); wait > 0 {
				time.Sleep(wait)
				from = time.Now()
			}
			if _, err := nc.Write(request); err != nil {
				return fmt.Errorf("load: %w", err)
			}
			res, err := http.ReadResponse(br, nil)
			if err != nil {
				return fmt.Errorf("load: %w", err)
			}
			_, err = io.Copy(io.Discard, res.Body)
			res.Body.Close()
			if err != nil || res.StatusCode != http.StatusOK {
				return fmt.Errorf("load: status %s, %w", res.Status, err)
			}
			mu.Lock()
			latency.Record(time.Since(from))
			mu.Unlock()
		}
		return nil
	}
	all := func(length time.Duration) error {
		interval := time.Duration(0)
		if p.Rate > 0 {
			interval = time.Duration(float64(p.Conns) / p.Rate * float64(time.Second))
		}
		start := time.Now().Add(10 * time.Millisecond) // the connections are open by then
		errs := make(chan error, p.Conns)
		for i := range p.Conns {
			go func() {
				errs <- send(start.Add(interval*time.Duration(i)/time.Duration(p.Conns)), start.Add(length), interval)
			}()
		}
		var first error
		for range p.Conns {
			if err := <-errs; first == nil {
				first = err
			}
		}
		return first
	}
	if err := all(p.Warmup); err != nil {
		return err
	}
	latency.Reset()
	err := r.during(p.Pid, func() error { return all(p.Window) })
	if r.take(&latency); err == nil && r.Requests == 0 {
		err = fmt.Errorf("load: the server answered nothing in %v", r.Wall)
	}
	return err
}

// hold opens connections and reads the server's memory at each step. Every connection is tried once.
func (r *Result) hold(p Plan) error {
	var ask func(path string) (string, error) // a request on the first connection
	var closers []func()
	defer func() {
		for _, end := range closers {
			end()
		}
	}()
	for _, step := range p.MemorySteps {
		for len(closers) < step {
			one, end, err := dial(p)
			if err != nil {
				return fmt.Errorf("load: connection %d: %w", len(closers), err)
			}
			closers = append(closers, end)
			if ask == nil {
				ask = one
			}
			if _, err := one(p.Path); err != nil {
				return fmt.Errorf("load: connection %d: %w", len(closers), err)
			}
		}
		if err := r.readMemory(p.Pid); err != nil {
			return err
		}
		if p.Path == "" {
			continue
		}
		text, err := ask("/live")
		if err != nil {
			return fmt.Errorf("load: /live: %w", err)
		}
		var live int64
		if _, err := fmt.Sscan(text, &live); err != nil {
			return fmt.Errorf("load: /live: %w", err)
		}
		rss, err := proc.RSS(p.Pid)
		if err != nil {
			return err
		}
		r.LiveBytes, r.TrimmedBytes = append(r.LiveBytes, live), append(r.TrimmedBytes, rss)
	}
	return nil
}

// dial returns a client with a connection of its own. Without a Path it echoes a message.
func dial(p Plan) (ask func(path string) (string, error), end func(), err error) {
	if p.Path == "" {
		c, err := tls.Dial("tcp", p.Addr, insecure())
		if err != nil {
			return nil, nil, err
		}
		return func(string) (string, error) {
			message := make([]byte, p.SizeBytes)
			if _, err := c.Write(message); err != nil {
				return "", err
			}
			_, err := io.ReadFull(c, message)
			return "", err
		}, func() { c.Close() }, nil
	}
	t := &http.Transport{Protocols: new(http.Protocols), TLSClientConfig: insecure()}
	t.Protocols.SetHTTP1(p.Client == "https")
	t.Protocols.SetHTTP2(p.Client == "h2")
	t.Protocols.SetUnencryptedHTTP2(p.Client == "h2c")
	scheme, client := "https://", &http.Client{Transport: t}
	if p.Client == "h2c" {
		scheme = "http://"
	}
	return func(path string) (string, error) {
		res, err := client.Get(scheme + p.Addr + path)
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err == nil && (res.ProtoMajor == 2) != (p.Client != "https") {
			err = fmt.Errorf("the server speaks %s", res.Proto)
		}
		return string(body), err
	}, client.CloseIdleConnections, nil
}
