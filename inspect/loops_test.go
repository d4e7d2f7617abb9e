package inspect_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/inspect"
	"github.com/spindleloop/spindle/internal/inspectapi"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/loop"
)

// get asks a handler with the options o, as a browser on this machine would.
func get[T any](t testing.TB, o inspect.Options, path string) (answer T) {
	t.Helper()
	status, body := request(o, "GET", path, nil)
	if status != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, status, body)
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		t.Fatalf("GET %s: %v in %s", path, err, body)
	}
	return answer
}

func request(o inspect.Options, method, path string, header http.Header) (status int, body []byte) {
	r := httptest.NewRequest(method, path, nil)
	r.RemoteAddr, r.Host = "127.0.0.1:1234", "localhost:6061"
	for name, values := range header {
		r.Header[name] = values
	}
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
	}
	w := httptest.NewRecorder()
	inspect.Handler(o).ServeHTTP(w, r)
	return w.Code, w.Body.Bytes()
}

// run runs fn as a task on a loop with that name. It calls outside while fn waits in
// Blocking.
func run(t *testing.T, name string, fn func(ctx context.Context, outside func(func())) error) {
	t.Helper()
	o := spindle.Options{Loop: loop.Options{Name: name}}
	err := o.Run(t.Context(), func(ctx context.Context) error {
		return fn(ctx, func(check func()) {
			_, _ = spindle.Blocking(ctx, func() (struct{}, error) { check(); return struct{}{}, nil })
		})
	})
	if err != nil {
		t.Error(err)
	}
}

// act asks for an action until the loop has answered. It reports whether it asked again.
func act(path string) (status int, body []byte, again bool) {
	until.Tried(func() bool {
		again = status != 0
		status, body = request(inspect.Options{AllowActions: true}, "POST", path, http.Header{"Spindle-Action": {"yes"}})
		return status != http.StatusServiceUnavailable
	})
	return status, body, again
}

// TestLagIsThatOfTheLastInterval has a timer that was late once, and no other one.
func TestLagIsThatOfTheLastInterval(t *testing.T) {
	const late = 20 * time.Millisecond
	run(t, "late", func(ctx context.Context, outside func(func())) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error { return spindle.Sleep(ctx, time.Millisecond) })
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
			spin(ctx, late)
			outside(func() {
				var l inspectapi.Loop
				until.Tried(func() bool {
					l = loopNamed(t, "late")
					return l.MaxLagNS >= int64(late/2) && l.LagNS == 0
				})
				if l.MaxLagNS < int64(late/2) || l.LagNS != 0 || l.LagP99NS > l.MaxLagNS || l.LagP50NS > l.MaxLagNS {
					t.Errorf("the lag is %v, at most %v, percentiles %v and %v", l.LagNS, l.MaxLagNS, l.LagP50NS, l.LagP99NS)
				}
			})
			return nil
		})
	})
}

// loopNamed returns the loop with a name.
func loopNamed(t testing.TB, name string) inspectapi.Loop {
	t.Helper()
	loops := get[inspectapi.LoopsAnswer](t, inspect.Options{}, "/api/v1/loops").Loops
	i := slices.IndexFunc(loops, func(l inspectapi.Loop) bool { return l.Name == name })
	if i < 0 {
		t.Fatalf("no loop %q among %v", name, loops)
	}
	return loops[i]
}

func TestLoopsAreFoundByName(t *testing.T) {
	run(t, "found", func(_ context.Context, outside func(func())) error {
		outside(func() {
			var l inspectapi.Loop
			until.Tried(func() bool {
				l = loopNamed(t, "found")
				return !l.Stale
			})
			if l.Stale || l.Turns == 0 || l.Workers.Busy != 1 || l.Workers.Limit != 32 || l.Backend == "" {
				t.Errorf("the loop is described as %+v", l)
			}
		})
		return nil
	})
	for _, l := range get[inspectapi.LoopsAnswer](t, inspect.Options{}, "/api/v1/loops").Loops {
		if l.Name == "found" {
			t.Errorf("a closed loop is listed: %+v", l)
		}
	}
}

// TestPoolsAreShown: each pool that a loop has used has its numbers, in the API and in the
// metrics, while it is full. Pools of one name are one row.
func TestPoolsAreShown(t *testing.T) {
	pools := []*spindle.Pool{{Name: "db \"1\"", Limit: 2}, {Name: "same", Limit: 3}, {Name: "same", Limit: 4}, {Limit: 1}}
	run(t, "pools", func(ctx context.Context, outside func(func())) error {
		release := make(chan struct{})
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			for _, pool := range pools {
				for range 5 {
					n.GoWith(spindle.TaskOptions{Eager: true}, func(ctx context.Context) error {
						_, err := spindle.Blocking(pool.In(ctx), func() (int, error) { <-release; return 0, nil })
						return err
					})
				}
			}
			outside(func() {
				want := []inspectapi.Pool{
					{Name: `db "1"`, Workers: inspectapi.Workers{Limit: 2, Busy: 2, Queued: 3}},
					{Name: "same", Workers: inspectapi.Workers{Limit: 7, Busy: 7, Queued: 3}},
					{Name: "unnamed", Workers: inspectapi.Workers{Limit: 1, Busy: 1, Queued: 4}},
				}
				var got []inspectapi.Pool
				until.Tried(func() bool { got = loopNamed(t, "pools").Pools; return slices.Equal(got, want) })
				if !slices.Equal(got, want) {
					t.Errorf("the pools are %+v, want %+v", got, want)
				}
				_, text := request(inspect.Options{}, "GET", "/metrics", nil)
				for _, want := range []string{`spindle_pool_queued{%s,pool="db \"1\""} 3`, `spindle_pool_limit{%s,pool="same"} 7`,
					`spindle_pool_busy{%s,pool="unnamed"} 1`, `spindle_pool_jobs_total{%s,pool="same"} 0`} {
					if want = fmt.Sprintf(want, `name="pools"`); !strings.Contains(string(text), want[strings.Index(want, "name="):]) {
						t.Errorf("the metrics do not have %s", want)
					}
				}
			})
			close(release)
			return nil
		})
	})
}
