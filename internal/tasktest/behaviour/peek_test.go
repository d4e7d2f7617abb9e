package behaviour_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/loop"
)

func TestWatchdogNamesTheTaskThatBlocks(t *testing.T) {
	reports := make(chan loop.Blocked, 16)
	o := spindle.Options{Loop: loop.Options{
		Watchdog: 20 * time.Millisecond,
		OnBlocked: func(b loop.Blocked) {
			if !b.Starved { // on a busy machine any turn may be
				reports <- b
			}
		},
	}}
	err := o.Run(t.Context(), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.GoWith(spindle.TaskOptions{Name: "culprit"}, func(ctx context.Context) error {
				_, err := spindle.MoveOnAfter(ctx, time.Hour, func(context.Context) error {
					b := <-reports // it comes while the task blocks here
					if !strings.HasPrefix(b.Task, "main > culprit (peek_test.go:") || !strings.Contains(b.Task, "in a scope 2 deep with 59m") {
						t.Errorf("the report names %q", b.Task)
					}
					if text := b.String(); !strings.Contains(text, "task main > culprit") {
						t.Errorf("the report does not name the task: %s", text)
					}
					return nil
				})
				return err
			})
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
}

// TestWatchdogShowsTheStackAmongManyTasks, of code that waits and of code that computes. Where
// the runtime is not known it shows none, because a dump would stop all tasks for long.
func TestWatchdogShowsTheStackAmongManyTasks(t *testing.T) {
	reports := make(chan loop.Blocked, 16)
	o := spindle.Options{Loop: loop.Options{
		Watchdog:  20 * time.Millisecond,
		OnBlocked: func(b loop.Blocked) { reports <- b },
	}}
	err := o.Run(t.Context(), func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			begun := 0
			for range goid.CheapStackLimit + 1 {
				n.Go(func(ctx context.Context) error { begun++; return spindle.Sleep(ctx, time.Hour) })
			}
			for begun <= goid.CheapStackLimit {
				if err := spindle.Yield(ctx); err != nil {
					return err
				}
			}
			for name, block := range map[string]func(chan loop.Blocked) loop.Blocked{"awaitReport(": awaitReport, "spinForReport(": spinForReport} {
				if err := spindle.Sleep(ctx, time.Millisecond); err != nil { // a turn is reported once
					return err
				}
				for len(reports) > 0 {
					<-reports // of the start of the tasks, on a busy machine
				}
				text := block(reports).String() // it comes while the task blocks here
				if strings.Contains(text, name) != goid.CanPeek || strings.Contains(text, "more than 4000") == goid.CanPeek {
					t.Errorf("the report has neither %q nor the reason: %s", name, text)
				}
				if !strings.Contains(text, "task main (peek_test.go:") {
					t.Errorf("the report does not name the task: %s", text)
				}
			}
			n.Scope().Cancel(nil)
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
}

//go:noinline
func awaitReport(reports chan loop.Blocked) loop.Blocked { return <-reports }

//go:noinline
func spinForReport(reports chan loop.Blocked) loop.Blocked {
	for len(reports) == 0 {
	}
	return <-reports
}
