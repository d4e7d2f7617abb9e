package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/gateway"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/web"
	"github.com/spindleloop/spindle/ws"
)

// simPlane is the program of a host with workers and a web plane.
func simPlane(handlers *int, handler relay.Handler, route gateway.Route) func(context.Context) error {
	return func(ctx context.Context) error {
		*handlers = 0 // a host that crashed has none
		bus := relay.NewLocal(relay.LocalOptions{})
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error {
				return relay.NewWorker(bus).Serve(ctx, "work", func(ctx context.Context, r *relay.Request) ([]byte, error) {
					*handlers++
					defer func() { *handlers-- }()
					return handler(ctx, r)
				}, relay.ServeOptions{InTasks: true, Concurrency: 8, ErrorLog: slog.New(slog.DiscardHandler)})
			})
			caller, err := relay.NewCaller(ctx, bus, relay.CallerOptions{Timeout: 2 * time.Second, Window: 2})
			if err != nil {
				return err
			}
			route.Subject, route.ErrorLog = "work", slog.New(slog.DiscardHandler)
			server := &web.Server{Handler: web.Inline(gateway.New(caller, route))}
			return server.ListenAndServe(ctx, "0.0.0.0:80")
		})
	}
}

// simHandler is a handler in a simulated world: the body is a verb and a number.
func simHandler(ctx context.Context, r *relay.Request) ([]byte, error) {
	var what string
	var n int
	if _, err := fmt.Sscan(string(r.Body), &what, &n); err != nil {
		return nil, err
	}
	switch what {
	case "fail":
		return nil, errors.New("as asked")
	case "wait":
		return nil, spindle.Sleep(ctx, time.Hour)
	case "items":
		for i := range n {
			if err := r.Send(ctx, fmt.Append(nil, string(r.Body), ".", i)); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
	return r.Body, spindle.Sleep(ctx, time.Duration(n)*time.Millisecond)
}

// TestCallsInFaultyWorlds: while connections break, hosts crash and clocks are wrong, no call gets a frame of
// another, none has two ends or a frame after its end, and no handler outlives its call.
func TestCallsInFaultyWorlds(t *testing.T) {
	for seed := range uint64(short.Seeds(60)) {
		w := sim.NewWorld(seed)
		handlers, ended := 0, 0
		w.Host("server").Serve(simPlane(&handlers, simHandler, gateway.Route{MaxCalls: 4}))
		for i := range 2 {
			w.Host(fmt.Sprint("client", i)).Go(func(ctx context.Context) error {
				for range 4 { // connections
					n, err := simClient(ctx)
					ended += n
					if err != nil {
						return err
					}
				}
				return nil
			})
		}
		if seed%2 == 1 {
			w.Faults = sim.Faults{For: 3 * time.Second, Lasting: 200 * time.Millisecond, Loss: 0.01, Dribble: 0.05,
				PartitionEvery: time.Second, CrashEvery: 2 * time.Second, PauseEvery: time.Second, ClockEvery: time.Second}
		}
		w.Eventually("the handlers have ended", 20*time.Second, func() bool { return handlers == 0 })
		if err := w.Run(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if ended == 0 {
			t.Errorf("seed %d: no call has ended", seed)
		}
	}
}

// simClient makes calls on one connection. It returns how many have ended, and fails if the server
// does what it must not.
func simClient(ctx context.Context) (ended int, err error) {
	var c *ws.Conn
	for c == nil {
		expired, err := spindle.MoveOnAfter(ctx, 5*time.Second, func(ctx context.Context) (err error) {
			c, err = ws.Dial(ctx, "ws://server/", ws.Options{Subprotocols: []string{callsProtocol}, PingInterval: time.Second})
			return err
		})
		if ctx.Err() != nil {
			return 0, err
		}
		if err != nil || expired {
			if err := spindle.Sleep(ctx, 50*time.Millisecond); err != nil {
				return 0, err
			}
		}
	}
	defer c.CloseNow()
	rand := spindle.Rand(ctx)
	open := map[uint64]string{} // bodies of calls that have not ended
	for next := uint64(1); ; {
		for len(open) < 4 && next <= 12 {
			body := fmt.Sprint([]string{"echo ", "items ", "fail ", "wait "}[rand.IntN(4)], rand.IntN(20))
			open[next] = body
			frames := []string{fmt.Sprintf(`{"type":"call","id":%d,"body":%q,"credit":%d}`, next, body, 1+rand.IntN(3))}
			if strings.HasPrefix(body, "wait") && rand.IntN(2) == 0 {
				frames = append(frames, fmt.Sprintf(`{"type":"cancel","id":%d}`, next))
			}
			next++
			if send(ctx, c, frames...) != nil {
				return ended, ctx.Err() // the connection is broken, and its calls have ended
			}
		}
		if len(open) == 0 {
			return ended, nil
		}
		text, err := frameFrom(ctx, c)
		if err != nil {
			return ended, ctx.Err()
		}
		var frame struct {
			Type, Body string
			ID         uint64
		}
		if err := json.Unmarshal([]byte(text), &frame); err != nil {
			return ended, err
		}
		body, isOpen := open[frame.ID]
		switch {
		case frame.Type == "hello" || frame.Type == "drain":
		case !isOpen:
			return ended, fmt.Errorf("a frame for a call that does not run: %s", text)
		case frame.Type == "item":
			if !strings.HasPrefix(frame.Body, body) {
				return ended, fmt.Errorf("%q gets %s", body, text)
			}
			if send(ctx, c, fmt.Sprintf(`{"type":"credit","id":%d,"n":1}`, frame.ID)) != nil {
				return ended, ctx.Err()
			}
		default:
			ended++
			delete(open, frame.ID)
		}
	}
}

// TestCallsOfClientThatDoesNotRead: the server keeps little for it, and disconnects it.
func TestCallsOfClientThatDoesNotRead(t *testing.T) {
	w := sim.NewWorld(1)
	handlers, most := 0, 0
	big := strings.Repeat("x", 100_000)
	w.Host("server").Serve(simPlane(&handlers, func(ctx context.Context, r *relay.Request) ([]byte, error) {
		most = max(most, handlers)
		return []byte(big), nil
	}, gateway.Route{MaxCalls: 4}))
	w.Host("client").Go(func(ctx context.Context) error {
		var c *ws.Conn
		for c == nil {
			c, _ = ws.Dial(ctx, "ws://server/", ws.Options{Subprotocols: []string{callsProtocol}})
			if err := spindle.Sleep(ctx, 10*time.Millisecond); err != nil {
				return err
			}
		}
		defer c.CloseNow()
		began := w.Now()
		for id := 1; ; id++ {
			if err := send(ctx, c, fmt.Sprintf(`{"type":"call","id":%d,"body":%q}`, id, big)); err != nil {
				if took := w.Now() - began; took < 30*time.Second || took > 65*time.Second { // WriteTimeout of the server, for what is buffered, is 30 seconds, too
					t.Errorf("disconnected after %v", took)
				}
				return nil
			}
		}
	})
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
	if most > 4 || handlers != 0 {
		t.Errorf("%d handlers at a time, and %d are left", most, handlers)
	}
}
