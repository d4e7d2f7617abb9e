package relay

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
)

// The functions here are for goroutines, too, which a simulated run does not have: for those they
// use the time and the random numbers of the machine.

var errLate = errors.New("relay: late")

// moveOnAfter is spindle.MoveOnAfter, also for goroutines.
func moveOnAfter(ctx context.Context, d time.Duration, fn func(context.Context) error) (late bool, err error) {
	if spindle.Current(ctx) != nil {
		return spindle.MoveOnAfter(ctx, d, fn)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, d, errLate)
	defer cancel()
	if err = fn(ctx); err == errLate {
		return true, nil
	}
	return false, err
}

// seeded returns a source of random numbers that cannot be predicted from earlier ones: seeded
// by the loop of a task, which may be simulated, or by the machine.
func seeded(ctx context.Context) *rand.ChaCha8 {
	var seed [32]byte
	if spindle.ScopeOf(ctx) != nil {
		k := spindle.LoopOf(ctx).Internal().Kernel()
		for i := 0; i < len(seed); i += 8 {
			binary.LittleEndian.PutUint64(seed[i:], k.Uint64())
		}
	} else {
		crand.Read(seed[:]) // does not fail
	}
	return rand.NewChaCha8(seed)
}

// withDeadline returns a context with the values of parent, but not its end.
func withDeadline(parent context.Context, due time.Time) (context.Context, context.CancelFunc) {
	parent = context.WithoutCancel(parent)
	if due.IsZero() {
		return context.WithCancel(parent)
	}
	return context.WithDeadline(parent, due)
}

// clock is the clock of a Caller or of a Serve: that of the loop where it was made in a
// task, so that it can be simulated, and otherwise the system's.
type clock struct{ l *loop.Loop }

func clockOf(ctx context.Context) clock {
	if spindle.ScopeOf(ctx) == nil {
		return clock{}
	}
	return clock{spindle.LoopOf(ctx)}
}

func (c clock) now() time.Time {
	if c.l == nil {
		return time.Now()
	}
	return c.l.Internal().Kernel().At(c.l.Time())
}

// after calls fn on a goroutine of its own after d. It is for goroutines outside of any loop.
func after(d time.Duration, fn func()) *time.Timer { return time.AfterFunc(d, fn) }
