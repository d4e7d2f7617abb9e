package relay

import (
	"context"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/atclose"
)

// publishWithin waits for space in the queue, at most for the time of the call. If it fails, it
// returns how the call ends: some workers may have the request, and must be notified.
func (c *Caller) publishWithin(ctx context.Context, w *waiter, limit time.Duration) (how ending, err error) {
	var late bool
	if spindle.Current(ctx) != nil {
		late, err = spindle.MoveOnAfter(ctx, limit, func(ctx context.Context) error {
			l, scope := spindle.LoopOf(ctx).Internal(), spindle.ScopeOf(ctx)
			return c.publish(ctx, w, func() {
				_ = l.Post(atclose.Run, func() { scope.Cancel(callerClosed(w.req.Subject)) }) // a closed loop has no tasks
			})
		})
	} else {
		late, err = moveOnAfter(ctx, limit, func(ctx context.Context) error {
			ctx, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			return c.publish(ctx, w, func() { cancel(callerClosed(w.req.Subject)) })
		})
	}
	switch {
	case late:
		return expired, &timeoutError{w.req.Subject, limit}
	case err != nil && ctx.Err() != nil:
		return canceled, err
	}
	return failed, err
}

// publish publishes the request of w. Close calls stop, which must end the wait.
func (c *Caller) publish(ctx context.Context, w *waiter, stop func()) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return callerClosed(w.req.Subject)
	}
	if c.queued == nil {
		c.queued = map[*waiter]func(){}
	}
	c.queued[w] = stop
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.queued, w)
	}()
	return c.bus.Publish(ctx, &w.req.Envelope)
}
