package intask

import (
	"context"
	"time"

	"github.com/spindleloop/spindle"
)

// Shield calls fn shielded from the end of ctx, like spindle.Shield. A run that is cancelled gives
// fn, and the tasks of nurseries in it, the time d after the end of ctx, and then its own grace
// period: a shield asks for time by its deadline. The shield inside keeps out the end of that
// time, so that fn decides itself what it ends.
func Shield(ctx context.Context, d time.Duration, fn func(context.Context) error) error {
	l := spindle.LoopOf(ctx)
	return spindle.WithScope(ctx, func(inner context.Context, s *spindle.Scope) error {
		s.SetShield(true)
		stop := l.Internal().AfterFunc(ctx, func() { s.SetDeadline(spindle.Now(s).Add(d)) })
		defer stop()
		return spindle.Shield(inner, fn)
	})
}
