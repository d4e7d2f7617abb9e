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

// The functions here are for goroutines, which a simulated run does not have: they use the
// time and the random numbers of the machine.

var errLate = errors.New("relay: late")

// moveOnAfter is spindle.MoveOnAfter for goroutines.
func moveOnAfter(ctx context.Context, d time.Duration, fn func(context.Context) error) (late bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, d, errLate)
	defer cancel()
	if err = fn(ctx); err == errLate {
		return true, nil
	}
	return false, err
}

// seeded returns a source of random numbers: seeded by the loop of a task, which may be
// simulated, or by the machine.
func seeded(ctx context.Context) *rand.PCG {
	if spindle.ScopeOf(ctx) != nil {
		k := spindle.LoopOf(ctx).Internal().Kernel()
		return rand.NewPCG(k.Uint64(), k.Uint64())
	}
	var seed [16]byte
	crand.Read(seed[:]) // does not fail
	return rand.NewPCG(binary.LittleEndian.Uint64(seed[:8]), binary.LittleEndian.Uint64(seed[8:]))
}

// withDeadline returns a context with the values of parent, but not its end.
func withDeadline(parent context.Context, due time.Time) (context.Context, context.CancelFunc) {
	parent = context.WithoutCancel(parent)
	if due.IsZero() {
		return context.WithCancel(parent)
	}
	return context.WithDeadline(parent, due)
}
