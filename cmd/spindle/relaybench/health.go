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
	"github.com/spindleloop/spindle/relay/gateway"
	"github.com/spindleloop/spindle/web"
)

// Health is how quickly a web plane answers /health, while its workers are idle, and while
// all of them run handlers that block and more requests are queued. Rounds of both alternate,
// and every figure is the median of the rounds.
type Health struct {
	IdleP50      time.Duration `json:"health_idle_p50_ns"`
	IdleP99      time.Duration `json:"health_idle_p99_ns"`
	SaturatedP50 time.Duration `json:"health_saturated_p50_ns"`
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
			mux.Handle("/health", web.Inline(gateway.Ready(bus)))
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
	var idle50, idle99, saturated50, saturated99, ratios []float64
	for i := range rounds + 1 {
		quiet, err := p.round(ctx)
		if err != nil {
			return h, err
		}
		var busy percentiles
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
			busy, err = p.round(ctx)
			return err
		})
		if err != nil {
			return h, err
		}
		if i > 0 { // the first round has warmed everything up
			idle50, idle99 = append(idle50, quiet.p50), append(idle99, quiet.p99)
			saturated50, saturated99 = append(saturated50, busy.p50), append(saturated99, busy.p99)
			ratios = append(ratios, busy.p99/quiet.p99)
		}
	}
	return Health{
		IdleP50: time.Duration(median(idle50)), IdleP99: time.Duration(median(idle99)),
		SaturatedP50: time.Duration(median(saturated50)), SaturatedP99: time.Duration(median(saturated99)),
		Ratio: median(ratios),
	}, nil
}

// percentiles are of the times of requests, in nanoseconds.
type percentiles struct{ p50, p99 float64 }

// round sends requests one after the other.
func (p *probe) round(ctx context.Context) (percentiles, error) {
	return spindle.Blocking(ctx, func() (percentiles, error) {
		var took []time.Duration
		for range p.each {
			began := time.Now()
			res, err := p.client.Get(p.url)
			if err != nil {
				return percentiles{}, err
			}
			_, err = io.Copy(io.Discard, res.Body)
			res.Body.Close()
			if err != nil || res.StatusCode != http.StatusOK {
				return percentiles{}, fmt.Errorf("relaybench: %s: %s, %w", p.url, res.Status, err)
			}
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		return percentiles{p50: float64(took[len(took)/2]), p99: float64(took[len(took)*99/100])}, nil
	})
}
