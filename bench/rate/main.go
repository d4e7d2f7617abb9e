// Rate sends HTTP requests at a constant rate and prints quantiles of their latency.
//
//	rate -rate 2000 -conns 64 -for 3s http://127.0.0.1:8000/json
//
// Each connection has a schedule. A request that cannot be sent at its time, because the
// one before is not answered, counts from its time in the schedule: a server that stops
// for a while is charged for every request that should have been sent meanwhile. A
// request that is late only because the generator's timer was counts from when it is sent.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sync"
	"time"
)

func main() {
	rate := flag.Float64("rate", 1000, "requests per second, on all connections together")
	conns := flag.Int("conns", 64, "connections")
	length := flag.Duration("for", 3*time.Second, "how long to send")
	flag.Parse()
	target, err := url.Parse(flag.Arg(0))
	if err != nil || target.Host == "" || *rate <= 0 || *conns <= 0 {
		flag.Usage()
		os.Exit(2)
	}
	latencies, err := run(target, *rate, *conns, *length)
	if err != nil {
		fmt.Fprintln(os.Stderr, "rate:", err)
		os.Exit(1)
	}
	if len(latencies) == 0 {
		fmt.Fprintln(os.Stderr, "rate: no request was answered")
		os.Exit(1)
	}
	slices.Sort(latencies)
	at := func(q float64) float64 {
		return latencies[int(q*float64(len(latencies)-1))].Seconds() * 1000
	}
	fmt.Printf("requests %d p50 %.3f p90 %.3f p99 %.3f max %.3f\n", len(latencies), at(0.5), at(0.9), at(0.99), at(1))
}

// run sends for a time and returns the latencies.
func run(target *url.URL, rate float64, conns int, length time.Duration) ([]time.Duration, error) {
	interval := time.Duration(float64(conns) / rate * float64(time.Second))
	found := make([][]time.Duration, conns)
	errs := make([]error, conns)
	start := time.Now().Add(50 * time.Millisecond) // the connections are open by then
	var all sync.WaitGroup
	for i := range conns {
		all.Go(func() {
			first := start.Add(interval * time.Duration(i) / time.Duration(conns))
			found[i], errs[i] = send(target, first, start.Add(length), interval)
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return slices.Concat(found...), nil
}

// send sends requests on one connection, from first to end.
func send(target *url.URL, first, end time.Time, interval time.Duration) ([]time.Duration, error) {
	nc, err := net.Dial("tcp", target.Host)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	_ = nc.SetDeadline(end.Add(10 * time.Second))
	request := []byte("GET " + target.RequestURI() + " HTTP/1.1\r\nHost: " + target.Host + "\r\n\r\n")
	br := bufio.NewReader(nc)
	var latencies []time.Duration
	for due := first; due.Before(end); due = due.Add(interval) {
		from := due
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
			from = time.Now()
		}
		if _, err := nc.Write(request); err != nil {
			return nil, err
		}
		res, err := http.ReadResponse(br, nil)
		if err != nil {
			return nil, err
		}
		_, err = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if err != nil {
			return nil, err
		}
		if res.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("status %s", res.Status)
		}
		latencies = append(latencies, time.Since(from))
	}
	return latencies, nil
}
