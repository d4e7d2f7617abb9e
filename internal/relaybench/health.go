package relaybench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/web"
)

// Health is how quickly a web plane answers /health, while its workers are idle, and while
// all of them run handlers that block and more requests are queued. Rounds of both alternate.
type Health struct {
	IdleP99      time.Duration `json:"health_idle_p99_ns"`
	SaturatedP99 time.Duration `json:"health_saturated_p99_ns"`

	// Ratio is the median of SaturatedP99 / IdleP99 of neighbouring rounds.
	Ratio float64 `json:"health_p99_ratio"`
}

const (
	blockingWorkers = 16                    // handlers at a time
	blockingCalls   = 2 * blockingWorkers   // clients that call again and again
	blockingTime    = 20 * time.Millisecond // of each handler
)

// MeasureHealth sends each requests to /health in every round.
func MeasureHealth(ctx context.Context, rounds, each int) (h Health, err error) {
	err = spindle.Run(ctx, func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			defer n.Scope().Cancel(nil)
			bus := relay.NewLocal(relay.LocalOptions{})
			n.Go(func(ctx context.Context) error {
				return relay.NewWorker(bus).Serve(ctx, "work", block, relay.ServeOptions{Concurrency: blockingWorkers})
			})
			if err := spindle.Yield(ctx); err != nil { // the worker subscribes
				return err
			}
			c, err := relay.NewCaller(ctx, bus, relay.CallerOptions{})
			if err != nil {
				return err
			}
			defer c.Close()
			mux := http.NewServeMux()
			mux.Handle("/health", web.Inline(relay.Ready(bus)))
			sv, err := (&web.Server{Handler: mux}).Listen(spindle.LoopOf(ctx), "tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			p := &probe{url: fmt.Sprintf("http://%v/health", sv.Addr()), each: each, client: &http.Client{Transport: &http.Transport{}}}
			h, err = p.measure(ctx, c, rounds)
			p.client.CloseIdleConnections()
			return errors.Join(err, spindle.Grace(ctx, 5*time.Second, sv.Shutdown))
		})
	})
	return h, err
}

// block is a handler that blocks its goroutine.
func block(ctx context.Context, _ *relay.Request) ([]byte, error) {
	timer := time.NewTimer(blockingTime)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil, ctx.Err()
}

// probe is a client of /health, on a goroutine.
type probe struct {
	url    string
	each   int
	client *http.Client
}

func (p *probe) measure(ctx context.Context, c *relay.Caller, rounds int) (h Health, err error) {
	var idle, saturated []time.Duration
	var ratios []float64
	for i := range rounds + 1 {
		quiet, err := p.p99(ctx)
		if err != nil {
			return h, err
		}
		var busy time.Duration
		err = spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			for range blockingCalls {
				n.Go(func(ctx context.Context) (err error) {
					for err == nil {
						_, err = c.Call(ctx, "work", nil)
					}
					return err
				})
			}
			defer n.Scope().Cancel(nil)
			for c.Stats().Waiting < blockingCalls {
				if err := spindle.Yield(ctx); err != nil {
					return err
				}
			}
			busy, err = p.p99(ctx)
			return err
		})
		if err != nil {
			return h, err
		}
		if i > 0 { // the first round has warmed everything up
			idle, saturated = append(idle, quiet), append(saturated, busy)
			ratios = append(ratios, float64(busy)/float64(quiet))
		}
	}
	slices.Sort(idle)
	slices.Sort(saturated)
	return Health{idle[len(idle)/2], saturated[len(saturated)/2], median(ratios)}, nil
}

// p99 sends requests one after the other, and returns the 99th percentile of their times.
func (p *probe) p99(ctx context.Context) (time.Duration, error) {
	return spindle.Blocking(ctx, func() (time.Duration, error) {
		var took []time.Duration
		for range p.each {
			began := time.Now()
			res, err := p.client.Get(p.url)
			if err != nil {
				return 0, err
			}
			_, err = io.Copy(io.Discard, res.Body)
			res.Body.Close()
			if err != nil || res.StatusCode != http.StatusOK {
				return 0, fmt.Errorf("relaybench: %s: %s, %w", p.url, res.Status, err)
			}
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		return took[len(took)*99/100], nil
	})
}
