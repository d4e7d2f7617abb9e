package process

import (
	"context"
	"time"
)

var (
	ErrStartTimeout = errStartTimeout
	ErrExited       = errExited
)

// WithClock returns o with another clock for the pauses before processes start.
func (o Options) WithClock(now func(context.Context) time.Time, moveOnAfter func(context.Context, time.Duration, func(context.Context) error) (bool, error)) Options {
	o.clock = clock{now, moveOnAfter}
	return o
}
