package inspect_test

import (
	"context"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/inspect"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
)

// In a simulated world a snapshot shows the state at a virtual time.
func TestSnapshotInASimulatedWorld(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		ln, err := stream.Listen(ctx, "tcp", "127.0.0.1:9000")
		if err != nil {
			return err
		}
		defer ln.Close()
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.GoWith(spindle.TaskOptions{Name: "sleeper"}, func(ctx context.Context) error {
				return spindle.Sleep(ctx, time.Hour)
			})
			for minutes := range 3 {
				a := inspect.Snapshot(ctx)
				sleeper := time.Duration(0)
				for _, task := range a.Tasks {
					if task.Name == "sleeper" && task.State == "waiting" {
						sleeper = time.Duration(task.WaitsNS)
					}
				}
				if want := time.Duration(minutes) * time.Minute; sleeper < want || sleeper > want+time.Second {
					t.Errorf("after %v the sleeper has waited %v", want, sleeper)
				}
				if len(a.Sockets) != 1 || a.Sockets[0].Kind != "listener" || a.Sockets[0].Local != "127.0.0.1:9000" {
					t.Errorf("the sockets are %+v", a.Sockets)
				}
				if err := spindle.Sleep(ctx, time.Minute); err != nil {
					return err
				}
			}
			n.Scope().Cancel(nil)
			return nil
		})
	})
}
