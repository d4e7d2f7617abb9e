package web_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/web"
)

// TestManyServicesEndInOneOrder: several services and connections that are closed together
// are closed in the same order in each run of a seed.
func TestManyServicesEndInOneOrder(t *testing.T) {
	const services, runs = 6, 6
	closed := func() (uint64, string) {
		w := sim.NewWorld(1)
		server := &web.Server{Handler: web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "x") }))}
		listening, over := false, false
		host := w.Host("server")
		host.Go(func(ctx context.Context) error {
			for i := range services {
				if _, err := server.Listen(spindle.LoopOf(ctx), "tcp", fmt.Sprint(":", 80+i)); err != nil {
					return err
				}
			}
			listening = true
			for !over {
				if err := spindle.Sleep(ctx, 1e6); err != nil {
					return err
				}
			}
			return server.Shutdown(ctx)
		})
		w.Host("client").Go(func(ctx context.Context) error {
			defer func() { over = true }()
			for !listening {
				if err := spindle.Sleep(ctx, 1e6); err != nil {
					return err
				}
			}
			closing, kept := &web.Transport{}, &web.Transport{}
			var errs []error
			for i := range services {
				for _, transport := range []*web.Transport{closing, kept} {
					_, _, err := do(ctx, &http.Client{Transport: transport}, "GET", fmt.Sprint("http://server:", 80+i), nil)
					errs = append(errs, err)
				}
			}
			closing.CloseIdleConnections()
			return errors.Join(errs...)
		})
		if err := w.Run(); err != nil {
			t.Fatal(err)
		}
		return w.Hash(), w.Trace().String()
	}
	want, trace := closed()
	for range runs - 1 {
		if got, other := closed(); got != want {
			t.Fatalf("the same seed gives another run:\n%s\nand\n%s", trace, other)
		}
	}
}
