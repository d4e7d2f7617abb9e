package ws_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/web"
	"github.com/spindleloop/spindle/ws"
)

// TestDrainClosesAcceptedConnsInASimulation covers handlers that read and handlers that
// have returned.
func TestDrainClosesAcceptedConnsInASimulation(t *testing.T) {
	for _, reads := range []bool{true, false} {
		t.Run(fmt.Sprintf("reads=%t", reads), func(t *testing.T) {
			w := sim.NewWorld(1)
			host, client := w.Host("server"), w.Host("client")
			host.Go(func(ctx context.Context) error {
				h := web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					c, err := ws.Accept(w, r, ws.Options{})
					if err != nil {
						t.Error(err)
						return
					}
					if !reads {
						return
					}
					if _, _, err := c.Read(context.Background()); ws.CodeOf(err) != ws.GoingAway {
						t.Errorf("the handler's Read: %v", err)
					}
				}))
				_, err := spindle.MoveOnAfter(ctx, time.Second, func(ctx context.Context) error {
					return (&web.Server{Handler: h, DrainTimeout: time.Minute}).ListenAndServe(ctx, ":80")
				})
				if w.Now() > 5*time.Second {
					t.Errorf("the server ended after %v", w.Now())
				}
				return err
			})
			client.Go(func(ctx context.Context) error {
				c, err := ws.Dial(ctx, "ws://server/", ws.Options{})
				for err != nil && ctx.Err() == nil {
					spindle.Sleep(ctx, time.Millisecond)
					c, err = ws.Dial(ctx, "ws://server/", ws.Options{})
				}
				if err != nil {
					return err
				}
				if _, _, err := c.Read(ctx); ws.CodeOf(err) != ws.GoingAway {
					return errors.Join(errors.New("the client's Read"), err)
				}
				return nil
			})
			if err := w.Run(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
