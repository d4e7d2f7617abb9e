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
	"github.com/spindleloop/spindle/internal/report"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/gateway"
	"github.com/spindleloop/spindle/web"
)

const (
	blockingWorkers = 16                    // handlers at a time
	blockingCalls   = 2 * blockingWorkers   // clients that call again and again
	blockingTime    = 20 * time.Millisecond // of each handler
)

// MeasureHealth measures how quickly a web plane answers /health, while its workers are idle, and while
// all of them run handlers that block and more requests are queued. It sends each requests in every round, and
// rounds of both alternate.
func MeasureHealth(ctx context.Context, rounds, each int) (tables []report.Section, err error) {
	var idle, blocked percentiles
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
			err = p.measure(ctx, c, rounds, &idle, &blocked)
			p.client.CloseIdleConnections()
			return errors.Join(err, spindle.Grace(ctx, 5*time.Second, sv.Shutdown))
		})
	})
	const which = "blocked workers"
	return []report.Section{{
		Title: "/health of a web plane", Reference: which,
		Columns: []report.Column{{Name: "p99 ns", Unit: report.Number, Better: report.Lower}, {Name: "p50 ns", Unit: report.Number, Better: report.Lower}},
		Rows: []report.Row{
			{Name: which, Ours: true, Key: "health_saturated_p99_ns", Figures: [][]float64{blocked.p99, blocked.p50}},
			{Name: "idle workers", Ours: true, Key: "health_idle_p99_ns", RatioKey: "health_p99_ratio", Figures: [][]float64{idle.p99, idle.p50}},
		},
	}}, err
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

func (p *probe) measure(ctx context.Context, c *relay.Caller, rounds int, idle, blocked *percentiles) error {
	for i := range rounds + 1 {
		if i == 1 { // the first round has warmed everything up
			*idle, *blocked = percentiles{}, percentiles{}
		}
		if err := p.round(ctx, idle); err != nil {
			return err
		}
		err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
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
			return p.round(ctx, blocked)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// percentiles are of the times of requests of each round, in nanoseconds.
type percentiles struct{ p50, p99 []float64 }

// round sends requests one after the other, and adds a round to the percentiles.
func (p *probe) round(ctx context.Context, to *percentiles) error {
	_, err := spindle.Blocking(ctx, func() (struct{}, error) {
		var took []time.Duration
		for range p.each {
			began := time.Now()
			res, err := p.client.Get(p.url)
			if err != nil {
				return struct{}{}, err
			}
			_, err = io.Copy(io.Discard, res.Body)
			res.Body.Close()
			if err != nil || res.StatusCode != http.StatusOK {
				return struct{}{}, fmt.Errorf("relaybench: %s: %s, %w", p.url, res.Status, err)
			}
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		to.p50, to.p99 = append(to.p50, float64(took[len(took)/2])), append(to.p99, float64(took[len(took)*99/100]))
		return struct{}{}, nil
	})
	return err
}
