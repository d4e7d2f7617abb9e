package demo_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// BenchmarkBesideBlocking measures /plaintext while many clients make the server block for
// 20 ms repeatedly, on workers and on the loop: compare p99.
func BenchmarkBesideBlocking(b *testing.B) {
	for _, c := range []struct {
		name, path string
		clients    int
	}{
		{"nothing", "", 0},
		{"offloaded", "/block?ms=20&offload=1", 32},
		{"blocked", "/block?ms=20&offload=0", 2},
	} {
		b.Run(c.name, func(b *testing.B) { besideBlocking(b, c.path, c.clients) })
	}
}

func besideBlocking(b *testing.B, path string, clients int) {
	url := serve(b, "", 1)
	ctx, cancel := context.WithCancel(b.Context())
	flood := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for ctx.Err() == nil {
				req, _ := http.NewRequestWithContext(ctx, "GET", url+path, nil)
				if resp, err := flood.Do(req); err == nil {
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			}
		})
	}
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		resp, err := http.Get(url + "/plaintext")
		if err != nil {
			b.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		took = append(took, time.Since(began))
	}
	cancel()
	all.Wait()
	flood.CloseIdleConnections()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}
