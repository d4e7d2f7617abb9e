package web_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/web"
)

// TestSimulatedTransportHTTP2 makes requests from many tasks while the server drains and starts
// again, over a network that is slow and cuts everything into pieces. No request is lost, no
// stream gets stuck, and an idle connection ends in its time.
func TestSimulatedTransportHTTP2(t *testing.T) {
	handler := web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		spindle.Sleep(r.Context(), 5*time.Millisecond)
		fmt.Fprintf(w, "%s %v", body, err)
	}))
	sim.Explore(t, 20, func(w *sim.World) {
		host, client := w.Host("server"), w.Host("client")
		w.Link(host, client).Set(sim.LinkOptions{Latency: sim.Uniform(time.Millisecond, 20*time.Millisecond), Dribble: 0.3})
		host.Serve(func(ctx context.Context) error {
			for {
				s := &web.Server{Handler: handler, Protocols: h2c(), HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 5}}
				sv, err := s.Listen(spindle.LoopOf(ctx), "tcp", ":80")
				if err != nil {
					return err
				}
				if err := spindle.Sleep(ctx, time.Second); err != nil {
					return err
				}
				if err := sv.Shutdown(ctx); err != nil {
					return err
				}
			}
		})
		client.Go(func(ctx context.Context) error {
			c := &http.Client{Transport: &web.Transport{Protocols: h2c()}}
			err := spindle.ForEach(ctx, 8, make([]int, 80), func(ctx context.Context, _ int) error {
				return spindle.FailAfter(ctx, time.Minute, func(ctx context.Context) error {
					want := strings.Repeat("x", int(spindle.Rand(ctx).Uint64()%100_000))
					for {
						_, got, err := do(ctx, c, "POST", "http://server/", strings.NewReader(want))
						if errors.Is(err, syscall.ECONNREFUSED) { // the server does not listen for a moment
							if err := spindle.Sleep(ctx, 50*time.Millisecond); err != nil {
								return err
							}
							continue
						}
						if err == nil && got != want+" <nil>" {
							err = fmt.Errorf("%d bytes of %d came back", len(got), len(want))
						}
						return err
					}
				})
			})
			if err != nil {
				return err
			}
			if err := spindle.Sleep(ctx, 2*time.Minute); err != nil {
				return err
			}
			for _, task := range spindle.TreeOf(ctx) {
				if strings.HasPrefix(task.Name, "HTTP/2 connection") {
					return errors.New("an idle connection is kept")
				}
			}
			return nil
		})
	})
}

// TestSimulatedTransportHTTP2InGrace: two requests share a connection when the run ends. Each
// has its response in its time, in either order: what one of them receives may be for the other.
func TestSimulatedTransportHTTP2InGrace(t *testing.T) {
	handler := web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, _ := time.ParseDuration(r.URL.Query().Get("after"))
		spindle.Sleep(r.Context(), d)
		io.Copy(w, r.Body)
	}))
	for _, after := range [][]time.Duration{{time.Second, 5 * time.Second}, {5 * time.Second, time.Second}} {
		sim.Explore(t, 5, func(w *sim.World) {
			host, client := w.Host("server"), w.Host("client")
			host.Serve(func(ctx context.Context) error {
				_, err := (&web.Server{Handler: handler, Protocols: h2c()}).Listen(spindle.LoopOf(ctx), "tcp", ":80")
				if err == nil {
					err = spindle.Sleep(ctx, time.Hour)
				}
				return err
			})
			client.Exec(func(o loop.Options) error {
				ends, cancel := context.WithCancel(context.Background())
				var failed error
				err := spindle.Options{Loop: o}.Run(ends, func(ctx context.Context) error {
					c := &http.Client{Transport: &web.Transport{Protocols: h2c()}}
					return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
						for _, d := range after {
							n.Go(func(ctx context.Context) error {
								failed = errors.Join(failed, spindle.Grace(ctx, time.Minute, func(ctx context.Context) error {
									return echoAfter(ctx, c, d)
								}))
								return nil
							})
						}
						spindle.Sleep(ctx, 500*time.Millisecond)
						cancel()
						return nil
					})
				})
				if errors.Is(err, context.Canceled) {
					err = nil
				}
				return errors.Join(err, failed)
			})
		})
	}
}

// echoAfter makes a request that is answered after d, and not much later.
func echoAfter(ctx context.Context, c *http.Client, d time.Duration) error {
	before, want := spindle.Now(ctx), strings.Repeat("x", 200_000)
	_, got, err := do(ctx, c, "POST", "http://server/?after="+d.String(), strings.NewReader(want))
	if err == nil && got != want {
		err = fmt.Errorf("%d bytes came back", len(got))
	}
	if took := spindle.Now(ctx).Sub(before); err == nil && took > d+time.Second {
		err = fmt.Errorf("the response after %v took %v", d, took)
	}
	return err
}
