package inspect_test

import (
	"bytes"
	"context"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/until"
)

// Goroutines of tasks that wait are labelled in pprof's profile of goroutines, also those
// that waited before the inspector was attached.
func TestSuspendedTasksAreLabelledInGoroutineProfiles(t *testing.T) {
	run(t, "labelled", func(ctx context.Context, outside func(func())) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.GoWith(spindle.TaskOptions{Name: "suspended early"}, func(ctx context.Context) error {
				return spindle.Sleep(ctx, time.Hour)
			})
			outside(func() {
				until.Holds(t, func() bool {
					tasksOf(t, "labelled", "") // attaches, and later labels
					return strings.Contains(goroutines(), `"task":"suspended early"`)
				})
			})
			n.GoWith(spindle.TaskOptions{Name: "suspended late"}, func(ctx context.Context) error {
				return spindle.Sleep(ctx, time.Hour)
			})
			outside(func() {
				until.Holds(t, func() bool { return strings.Contains(goroutines(), `"task":"suspended late"`) })
			})
			n.Scope().Cancel(nil)
			return nil
		})
	})
}

func goroutines() string {
	var b bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&b, 1)
	return b.String()
}
