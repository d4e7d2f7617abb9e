package behaviour_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/sim"
)

// TestNestedTimeoutsAbsorbTheirOwn has two time-outs around nurseries in nurseries.
// Some tasks end when the inner time-out has passed, others clean up until the outer
// one has passed too, and then fail with that: every leaf is one of the two.
func TestNestedTimeoutsAbsorbTheirOwn(t *testing.T) {
	for run := range short.Of(200) {
		r := rand.New(rand.NewPCG(uint64(run), 4))
		task := func(ctx context.Context) error {
			err := forever(ctx)
			if r.IntN(2) == 0 {
				return err
			}
			cleanUp := time.Duration(r.IntN(10)) * time.Second
			if err := spindle.Shield(ctx, func(ctx context.Context) error { return spindle.Sleep(ctx, cleanUp) }); err != nil {
				return err
			}
			return spindle.Yield(ctx)
		}
		var nest func(depth int) func(context.Context) error
		nest = func(depth int) func(context.Context) error {
			return func(ctx context.Context) error {
				return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
					for range 4 {
						if depth > 0 {
							n.Go(nest(depth - 1))
						} else {
							n.Go(task)
						}
					}
					return nil
				})
			}
		}
		err := sim.Run(t.Context(), func(ctx context.Context) error {
			_, err := spindle.MoveOnAfter(ctx, 5*time.Second, func(ctx context.Context) error {
				_, err := spindle.MoveOnAfter(ctx, time.Duration(1+r.IntN(4))*time.Second, nest(2))
				return err
			})
			return err
		})
		if err != nil {
			t.Fatalf("run %d: %v", run, err)
		}
	}
}

// errorTree makes random trees of errors, and knows what must remain of them after a scope
// has absorbed its own cancellation.
type errorTree struct {
	r      *rand.Rand
	own    error
	others []error
}

// errorNode is an error in the model: a leaf, a wrapper, or a join.
type errorNode struct {
	err     error
	kind    string
	inside  []errorNode
	is, any bool // has only leaves of the scope's own; has any
}

func (m *errorTree) make(depth int) errorNode {
	kind := []string{"leaf", "leaf", "Errors", "Join", "wrapped", "several in words"}[m.r.IntN(6)]
	if depth == 0 {
		kind = "leaf"
	}
	n := errorNode{kind: kind, is: true}
	many := 1 + m.r.IntN(3)
	switch kind {
	case "leaf":
		n.is = m.r.IntN(2) == 0
		n.any, n.err = n.is, m.own
		if !n.is {
			n.err = m.others[m.r.IntN(len(m.others))]
		}
		return n
	case "wrapped":
		many = 1
	case "several in words":
		many = 2
	}
	var errs []error
	for range many {
		in := m.make(depth - 1)
		n.inside, errs = append(n.inside, in), append(errs, in.err)
		n.is, n.any = n.is && in.is, n.any || in.any
	}
	switch kind {
	case "Errors":
		n.err = &spindle.Errors{Errs: errs}
	case "Join":
		n.err = errors.Join(errs...)
	case "wrapped":
		n.err = fmt.Errorf("in other words: %w", errs[0])
	default:
		n.err = fmt.Errorf("first %w, then %w", errs[0], errs[1])
	}
	return n
}

// left returns what remains of n in the model, as text: leaves in order, joins in brackets.
// A join of one error is that error. A wrapper with a text of its own stays whole.
func (n errorNode) left() string {
	switch {
	case n.is:
		return ""
	case n.kind == "leaf", n.kind == "wrapped", n.kind == "several in words":
		return describe(n.err)
	}
	var parts []string
	for _, in := range n.inside {
		if text := in.left(); text != "" {
			parts = append(parts, text)
		}
	}
	if len(parts) == 1 && n.touched() {
		return parts[0]
	}
	return n.kind + fmt.Sprint(parts)
}

// touched reports whether something is removed from a join, or from joins inside it.
func (n errorNode) touched() bool {
	return slices.ContainsFunc(n.inside, func(in errorNode) bool {
		return in.is || (in.kind == "Errors" || in.kind == "Join") && in.touched()
	})
}

// describe returns the text of an error, in the model's form.
func describe(err error) string {
	var inside []error
	kind := ""
	switch e := err.(type) {
	case nil:
		return ""
	case *spindle.Errors:
		kind, inside = "Errors", e.Errs
	case interface{ Unwrap() []error }:
		if reflect.TypeOf(err) != reflect.TypeOf(errors.Join(errCause)) {
			return fmt.Sprintf("%p", err)
		}
		kind, inside = "Join", e.Unwrap()
	default:
		return fmt.Sprintf("%p", err)
	}
	var parts []string
	for _, err := range inside {
		parts = append(parts, describe(err))
	}
	return kind + fmt.Sprint(parts)
}

// TestScopeAbsorbsExactlyItsOwn compares what remains of random errors after a scope has
// absorbed its cancellation with the model. The other leaves are ordinary errors and cancellations of
// scopes around and elsewhere.
func TestScopeAbsorbsExactlyItsOwn(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		return spindle.WithScope(ctx, func(ctx context.Context, outer *spindle.Scope) error {
			var elsewhere error
			spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
				s.Cancel(nil)
				elsewhere = spindle.Yield(ctx)
				return nil
			})
			for seed := range uint64(3000) {
				m := &errorTree{r: rand.New(rand.NewPCG(seed, 7))}
				var tree errorNode
				var scope *spindle.Scope
				err := spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
					scope = s
					s.Cancel(nil)
					m.own = spindle.Yield(ctx)
					m.others = []error{errCause, elsewhere, &spindle.Errors{}, &spindle.Canceled{Scope: outer, Cause: errCause}}
					tree = m.make(4)
					return tree.err
				})
				if got, want := describe(err), tree.left(); got != want {
					t.Fatalf("seed %d: of %s is left\n%s, want\n%s", seed, describe(tree.err), got, want)
				}
				if err := spindle.Yield(ctx); err != nil { // or cancelled waits are slowed down
					return err
				}
				if want := tree.is || (tree.kind == "Errors" || tree.kind == "Join") && tree.touched(); scope.Caught() != want {
					t.Fatalf("seed %d: of %s: caught %v", seed, describe(tree.err), scope.Caught())
				}
			}
			return nil
		})
	})
}

// TestPanicWithACancellationIsAPanic: a task panics with the error of a wait that its own
// scope has cancelled.
func TestPanicWithACancellationIsAPanic(t *testing.T) {
	defer func() {
		p, _ := recover().(*spindle.PanicError)
		var canceled *spindle.Canceled
		if p == nil || !errors.As(p, &canceled) {
			t.Errorf("recovered %v, want the panic of the task", p)
		}
	}()
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.GoWith(spindle.TaskOptions{Values: ctx}, func(ctx context.Context) error {
				spindle.ScopeOf(ctx).Cancel(nil)
				panic(spindle.Checkpoint(ctx))
			})
			return nil
		})
	})
	t.Errorf("Run returned %v", err)
}

// TestErrorsBesideACancellation are kept: the scope absorbs only its own cancellation.
func TestErrorsBesideACancellation(t *testing.T) {
	boom := errors.New("boom")
	var inner *spindle.Scope
	err := nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
		return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			inner = s
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				n.Go(func(ctx context.Context) error { forever(ctx); return boom }) // fails as it is cancelled
				n.Go(forever)
				s.Cancel(nil)
				return forever(ctx)
			})
		})
	})
	if err != boom || !inner.Caught() {
		t.Errorf("%v, caught %v", err, inner.Caught())
	}
}
