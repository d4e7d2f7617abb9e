package process

import (
	"context"
	"time"
)

// WithClock returns o with another clock for the pauses before processes start.
func (o Options) WithClock(now func(context.Context) time.Time, sleep func(context.Context, time.Duration) error) Options {
	o.clock = clock{now, sleep}
	return o
}
