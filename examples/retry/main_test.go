package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/sim"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestTheProgram(t *testing.T) {
	var out strings.Builder
	if err := spindle.Run(t.Context(), func(ctx context.Context) error { return run(ctx, &out) }); err != nil {
		t.Fatal(err)
	}
	if want := "try 1\ntry 2\ntry 3\nforty-two\n"; out.String() != want {
		t.Errorf("it prints %q; want %q", out.String(), want)
	}
}

var slow = policy{tries: 4, timeout: time.Minute, pause: time.Second}

var errService = errors.New("no service")

// TestWhenItTries lists how long each attempt takes and when the attempts must begin.
func TestWhenItTries(t *testing.T) {
	for _, c := range []struct {
		name  string
		takes []time.Duration // negative: fails after this time
		begin []time.Duration
		end   time.Duration
		err   error
	}{
		{"once, if that succeeds", []time.Duration{time.Second}, []time.Duration{0}, time.Second, nil},
		{"again after a failure", []time.Duration{-10 * time.Second, 0}, []time.Duration{0, 11 * time.Second}, 11 * time.Second, nil},
		{"again after a time-out", []time.Duration{time.Hour, 0}, []time.Duration{0, 61 * time.Second}, 61 * time.Second, nil},
		{"each pause twice as long, and then no more", []time.Duration{time.Hour, time.Hour, time.Hour, -time.Second},
			[]time.Duration{0, 61 * time.Second, 123 * time.Second, 187 * time.Second}, 188 * time.Second, errService},
	} {
		t.Run(c.name, func(t *testing.T) {
			sim.Test(t, func(ctx context.Context) error {
				start := spindle.Now(ctx)
				var begin []time.Duration
				_, err := retry(ctx, slow, func(ctx context.Context) (int, error) {
					begin = append(begin, spindle.Now(ctx).Sub(start))
					takes := c.takes[len(begin)-1]
					if err := spindle.Sleep(ctx, max(takes, -takes)); err != nil {
						return 0, err
					}
					if takes < 0 {
						return 0, errService
					}
					return 0, nil
				})
				if !slices.Equal(begin, c.begin) {
					t.Errorf("tried at %v; want %v", begin, c.begin)
				}
				if end := spindle.Now(ctx).Sub(start); end != c.end {
					t.Errorf("ended at %v; want %v", end, c.end)
				}
				if !errors.Is(err, c.err) {
					t.Errorf("ended with %v; want %v", err, c.err)
				}
				return nil
			})
		})
	}
}

func TestTheErrorHasEveryFailure(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		tries := 0
		_, err := retry(ctx, policy{tries: 2, timeout: time.Second}, func(ctx context.Context) (int, error) {
			if tries++; tries == 1 {
				return 0, spindle.Sleep(ctx, time.Hour)
			}
			return 0, errService
		})
		if !errors.Is(err, spindle.ErrTimeout) || !errors.Is(err, errService) {
			t.Errorf("got %v; want a time-out and a failure", err)
		}
		return nil
	})
}

// TestACancellationIsNotRetried cancels retry from outside, at several points.
func TestACancellationIsNotRetried(t *testing.T) {
	for _, c := range []struct {
		where string
		after time.Duration
		tries int
	}{
		{"in the first try", 30 * time.Second, 1},
		{"in the first pause", 60*time.Second + time.Second/2, 1},
		{"in the last try", 200 * time.Second, 4},
	} {
		sim.Test(t, func(ctx context.Context) error {
			tries := 0
			expired, err := spindle.MoveOnAfter(ctx, c.after, func(ctx context.Context) error {
				_, err := retry(ctx, slow, func(ctx context.Context) (int, error) {
					tries++
					return 0, spindle.Sleep(ctx, time.Hour)
				})
				return err
			})
			if !expired || err != nil || tries != c.tries {
				t.Errorf("%s: expired %v, error %v, %d tries; want true, nil, %d", c.where, expired, err, tries, c.tries)
			}
			return nil
		})
	}
}
