package relay

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/spindleloop/spindle"
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
