package relay

import (
	"context"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/intask"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/tracing"
)

// serveInTasks serves with a task for each handler. The tasks are shielded from the end of
// ctx, so that they can drain. Run waits twice for them.
func (s *service) serveInTasks(ctx context.Context) error {
	return intask.Shield(ctx, 2*s.o.Drain, func(shielded context.Context) error {
		return spindle.WithNursery(shielded, func(_ context.Context, n *spindle.Nursery) error {
			s.spawn = func() {
				n.GoWith(spindle.TaskOptions{Name: "relay worker " + s.subject}, func(ctx context.Context) error {
					s.pull(ctx, func(d Delivery) { s.serveInTask(ctx, d) })
					return nil
				})
			}
			return s.run(ctx)
		})
	})
}

// inTask is a request with the scope of its handler.
type inTask struct {
	Request
	l     *loop.Loop
	scope *spindle.Scope
}

// stop cancels the scope, from any goroutine.
func (v *inTask) stop() {
	if v.l.Owns() {
		v.scope.Cancel(nil)
		return
	}
	_ = v.l.Internal().Post(atclose.Drop, func() { v.scope.Cancel(nil) }) // Close ends all tasks
}

func (s *service) serveInTask(ctx context.Context, d Delivery) {
	_ = spindle.WithScope(ctx, func(ctx context.Context, sc *spindle.Scope) error {
		v := &inTask{Request: Request{Envelope: d.Envelope, s: s, settle: d.Settle}, l: spindle.LoopOf(ctx), scope: sc}
		ok, o := s.admit(v)
		defer func() { v.settled(o) }()
		if ok {
			if !v.due.IsZero() {
				sc.SetDeadline(v.due)
			}
			o = s.perform(tracing.With(ctx, v.Trace), v)
		}
		return nil
	})
}
