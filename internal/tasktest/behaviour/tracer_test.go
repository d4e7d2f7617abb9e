package behaviour_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/tracing"
)

// spanTree records spans by their paths.
type spanTree struct{ ended []string }

type spanKey struct{}

func (s *spanTree) Start(ctx context.Context, info tracing.Span) (context.Context, func(tracing.End)) {
	path := info.Task
	if above, ok := ctx.Value(spanKey{}).(string); ok {
		path = above + "/" + path
	}
	return context.WithValue(ctx, spanKey{}, path), func(end tracing.End) {
		s.ended = append(s.ended, fmt.Sprintf("%s: %v", path, end.Err != nil))
	}
}

func TestTasksRunInSpans(t *testing.T) {
	var tracer spanTree
	out := errors.New("out of luck")
	err := spindle.Run(spindle.WithTracer(t.Context(), &tracer), func(ctx context.Context) error {
		if spindle.TracerOf(ctx) == nil {
			t.Error("TracerOf returns nil in a run with a tracer")
		}
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.OnFailure(func(error) {})
			n.GoWith(spindle.TaskOptions{Name: "outer"}, func(ctx context.Context) error {
				if scope := spindle.ScopeOf(ctx); scope != n.Scope() {
					t.Error("a span has changed the scope of the task")
				}
				return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
					n.GoWith(spindle.TaskOptions{Name: "inner"}, func(ctx context.Context) error { return spindle.Yield(ctx) })
					n.GoWith(spindle.TaskOptions{Name: "apart", Values: context.Background()}, func(ctx context.Context) error { return nil })
					return nil
				})
			})
			n.GoWith(spindle.TaskOptions{Name: "fails"}, func(ctx context.Context) error { return out })
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(tracer.ended)
	want := []string{"main/fails: true", "main/outer/inner: false", "main/outer: false", "main: false"}
	if !slices.Equal(tracer.ended, want) {
		t.Errorf("the spans are %q, not %q", tracer.ended, want)
	}
}

func TestSpanOfTaskThatPanicsEnds(t *testing.T) {
	var tracer spanTree
	func() {
		defer func() {
			if recover() == nil {
				t.Error("Run has not panicked")
			}
		}()
		_ = spindle.Run(spindle.WithTracer(t.Context(), &tracer), func(ctx context.Context) error { panic("out of luck") })
	}()
	if want := []string{"main: true"}; !slices.Equal(tracer.ended, want) {
		t.Errorf("the spans are %q, not %q", tracer.ended, want)
	}
}

func TestRunWithoutTracerHasNone(t *testing.T) {
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		if spindle.TracerOf(ctx) != nil {
			t.Error("TracerOf returns a tracer")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
