package behaviour_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/simkernel"
	"github.com/spindleloop/spindle/loop"
)

// TestHandingOverKeepsTheOrder: a task that waits switches to the next one without going
// through the loop. With OnTurn, which is called in every turn, each switch goes through
// the loop; the order is the same. The program has more timers due at once than
// one turn fires, and between them tasks, callbacks and posts.
func TestHandingOverKeepsTheOrder(t *testing.T) {
	trace := func(o loop.Options) []string {
		var seen []string
		o.Watchdog = -1
		o = loop.Internal().WithKernel(o, simkernel.NewKernel())
		err := spindle.Options{Loop: o}.Run(t.Context(), func(ctx context.Context) error {
			l := spindle.LoopOf(ctx)
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				start := spindle.NewFuture[int](ctx)
				for _, name := range []string{"a", "b"} {
					n.Go(func(ctx context.Context) error {
						if _, err := start.Await(ctx); err != nil {
							return err
						}
						for i := range 10 {
							seen = append(seen, fmt.Sprint(name, i))
							switch {
							case name == "a" && i == 3:
								l.CallSoonPriority(loop.Low, func() { seen = append(seen, "low") })
								l.CallSoonPriority(loop.High, func() { seen = append(seen, "high") })
							case name == "b" && i == 5:
								l.Post(func() { seen = append(seen, "posted") })
							}
							if err := spindle.Yield(ctx); err != nil {
								return err
							}
						}
						return nil
					})
				}
				when := l.Time() + time.Millisecond
				for i := range 200 {
					l.CallAt(when, func() {
						if i == 0 {
							start.Resolve(1)
						}
						seen = append(seen, fmt.Sprint("timer ", i))
					})
				}
				return nil
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		return seen
	}
	want, got := trace(loop.Options{OnTurn: func(loop.Turn) {}}), trace(loop.Options{})
	if len(want) != 200+20+3 || !slices.Equal(got, want) {
		t.Errorf("%d events with OnTurn:\n%v\nwithout:\n%v", len(want), want, got)
	}
}

// TestHandingOverKeepsTheOrderInSteps: the host may run ready callbacks before due timers,
// and when a timer panics the others run later.
func TestHandingOverKeepsTheOrderInSteps(t *testing.T) {
	for name, drive := range map[string]func(*loop.Loop){
		"ready before timers": func(l *loop.Loop) {
			for range 20 {
				l.Poll(0)
				pending := l.Pending()
				for i := len(pending) - 1; i >= 0; i-- {
					pending[i].Run()
				}
			}
		},
		"a panic among the timers": func(l *loop.Loop) {
			l.Poll(0)
			l.Run(t.Context())
		},
	} {
		trace := func(o loop.Options) []string {
			o.Watchdog = -1
			o = loop.Internal().WithKernel(o, simkernel.NewKernel())
			o.OnPanic = func(*loop.PanicError) error { return nil }
			l, err := loop.New(o)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			var seen []string
			running := 2
			for _, task := range []string{"a", "b"} {
				spindle.RunOn(t.Context(), l, func(ctx context.Context) error {
					for i := range 5 {
						seen = append(seen, fmt.Sprint(task, i))
						if err := spindle.Yield(ctx); err != nil {
							return err
						}
					}
					return nil
				}, func(error) {
					if running--; running == 0 {
						l.Stop()
					}
				})
			}
			l.CallLater(0, func() { seen = append(seen, "panics"); panic("on purpose") })
			l.CallLater(0, func() { seen = append(seen, "timer") })
			drive(l)
			return seen
		}
		want, got := trace(loop.Options{OnTurn: func(loop.Turn) {}}), trace(loop.Options{})
		if len(want) != 12 || !slices.Equal(got, want) {
			t.Errorf("%s, with OnTurn:\n%v\nwithout:\n%v", name, want, got)
		}
	}
}

// TestOnTurnIsCalledInEveryTurn, also where tasks could switch to each other directly.
func TestOnTurnIsCalledInEveryTurn(t *testing.T) {
	turns := 0
	o := spindle.Options{Loop: loop.Options{OnTurn: func(loop.Turn) { turns++ }, Watchdog: -1}}
	err := o.Run(t.Context(), func(ctx context.Context) error {
		l := spindle.LoopOf(ctx)
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			for range 2 {
				n.Go(func(ctx context.Context) error {
					for range 100 {
						if err := spindle.Yield(ctx); err != nil {
							return err
						}
					}
					if told, all := uint64(turns), l.Stats().Turns; told != all-1 { // but for the one under way
						t.Errorf("told of %d turns of %d", told, all)
					}
					return nil
				})
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}
