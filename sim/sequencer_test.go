package sim_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
)

// Two tasks run their steps in a fixed order.
func ExampleSequencer() {
	sim.Run(context.Background(), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			var seq sim.Sequencer
			say := func(words string) func(context.Context) error {
				return func(context.Context) error { fmt.Println(words); return nil }
			}
			n.Go(func(ctx context.Context) error {
				if err := seq.Step(ctx, 1, say("writer: writes")); err != nil {
					return err
				}
				return seq.Step(ctx, 3, say("writer: closes"))
			})
			n.Go(func(ctx context.Context) error {
				if err := seq.Step(ctx, 0, say("reader: finds nothing")); err != nil {
					return err
				}
				return seq.Step(ctx, 2, say("reader: reads"))
			})
			return nil
		})
	})
	// Output:
	// reader: finds nothing
	// writer: writes
	// reader: reads
	// writer: closes
}

func TestSequencerKeepsTheOrder(t *testing.T) {
	const steps = 10
	for first := range steps { // tasks call Step in different orders
		simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
			var seq sim.Sequencer
			next, under := 0, false
			for i := range steps {
				n.Go(func(ctx context.Context) error {
					step := (first + 7*i) % steps
					return seq.Step(ctx, step, func(ctx context.Context) error {
						if step != next || under {
							t.Errorf("step %d began, expected %d; another under way: %v", step, next, under)
						}
						next++
						under = true
						err := spindle.Sleep(ctx, time.Second)
						under = false
						return err
					})
				})
			}
			return nil
		})
	}
}

// TestNextStepBeginsAfterAFailure or a panic of the one before.
func TestNextStepBeginsAfterAFailure(t *testing.T) {
	boom := errors.New("boom")
	simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
		var seq sim.Sequencer
		ended := false
		n.Go(func(ctx context.Context) error {
			return seq.Step(ctx, 2, func(context.Context) error { ended = true; return nil })
		})
		if err := seq.Step(ctx, 0, func(context.Context) error { return boom }); err != boom {
			t.Errorf("a failing step: %v", err)
		}
		func() {
			defer func() {
				if v := recover(); v != boom {
					t.Errorf("a panicking step: %v", v)
				}
			}()
			seq.Step(ctx, 1, func(context.Context) error { panic(boom) })
		}()
		err := sim.WaitAllBlocked(ctx)
		if !ended {
			t.Error("the next step never began")
		}
		return err
	})
}

func TestCancelledWaitBreaksTheSequence(t *testing.T) {
	simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
		var seq sim.Sequencer
		never := func(context.Context) error { t.Error("a step of a broken sequence began"); return nil }
		n.Go(func(ctx context.Context) error {
			if err := seq.Step(ctx, 3, never); err != sim.ErrBrokenSequence {
				t.Errorf("a waiting step: %v", err)
			}
			return nil
		})
		var broken *spindle.Scope
		n.Go(func(ctx context.Context) error {
			err := spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
				broken = s
				return seq.Step(ctx, 2, never)
			})
			if !errors.Is(err, sim.ErrBrokenSequence) || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "step 2") {
				t.Errorf("the cancelled step: %v", err)
			}
			return nil
		})
		err := seq.Step(ctx, 0, func(ctx context.Context) error {
			if err := sim.WaitAllBlocked(ctx); err != nil {
				return err
			}
			broken.Cancel(nil)
			return sim.WaitAllBlocked(ctx) // a running step is not affected
		})
		for _, late := range []int{1, 9} {
			if err := seq.Step(ctx, late, never); err != sim.ErrBrokenSequence {
				t.Errorf("the later step %d: %v", late, err)
			}
		}
		return err
	})
}

// TestStepInACancelledScope breaks the sequence too, even if the step could begin.
func TestStepInACancelledScope(t *testing.T) {
	simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
		var seq sim.Sequencer
		err := spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			s.Cancel(nil)
			return seq.Step(ctx, 0, func(context.Context) error { t.Error("it began"); return nil })
		})
		if !errors.Is(err, sim.ErrBrokenSequence) {
			t.Errorf("%v", err)
		}
		return nil
	})
}

func TestMisuseOfASequencerIsNamed(t *testing.T) {
	var seq sim.Sequencer
	nop := func(context.Context) error { return nil }
	mustPanic(t, "outside of the tasks", func() { seq.Step(context.Background(), 0, nop) })
	simulate(t, func(ctx context.Context, n *spindle.Nursery) error {
		mustPanic(t, "-1", func() { seq.Step(ctx, -1, nop) })
		n.Go(func(ctx context.Context) error { return seq.Step(ctx, 2, nop) })
		if err := sim.WaitAllBlocked(ctx); err != nil {
			return err
		}
		again := func(n int) {
			mustPanic(t, fmt.Sprintf("step %d was used before", n), func() { seq.Step(ctx, n, nop) })
		}
		again(2) // it waits
		err := seq.Step(ctx, 0, func(context.Context) error { again(0); return nil })
		again(0) // it has ended
		if err != nil {
			return err
		}
		return seq.Step(ctx, 1, nop) // unharmed
	})
}

// TestMissingStepIsADeadlock: the report names the step that waits.
func TestMissingStepIsADeadlock(t *testing.T) {
	err := sim.Run(t.Context(), func(ctx context.Context) error {
		var seq sim.Sequencer
		return seq.Step(ctx, 1, func(context.Context) error { return nil })
	})
	if !errors.Is(err, sim.ErrDeadlock) || !strings.Contains(err.Error(), "waiting for Sequencer step 1") {
		t.Errorf("%v", err)
	}
}
