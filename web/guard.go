package web

import (
	"errors"
	"sync/atomic"
)

// guard admits one call at a time to a response, and none after its handler has returned.
// Any goroutine.
//
//	idle ──enter──▶ busy ──leave──▶ idle
//	  │ close          │ close
//	  ▼                ▼
//	over ◀──leave── busy, over
//
// A mutex was tempting, but a task that waits for one blocks its loop, and the holder may
// be waiting for that loop.
type guard struct{ state atomic.Uint32 }

const (
	busy uint32 = 1 << iota // a call is under way
	over                    // the handler has returned
)

// Why a call is refused.
var (
	errReturned = errors.New("web: the request's handler has returned")
	errTwoCalls = errors.New("web: two calls of a ResponseWriter's methods at once")
)

// enter begins a call, for leave to end.
func (g *guard) enter() error {
	if g.state.CompareAndSwap(0, busy) {
		return nil
	}
	if g.closed() {
		return errReturned
	}
	return errTwoCalls
}

// leave ends a call. It reports whether the handler has returned meanwhile; the caller
// then completes the response.
func (g *guard) leave() (last bool) { return g.state.Add(^busy+1) == over }

// close is called once, when the handler returns. It reports whether no call is under way.
func (g *guard) close() (idle bool) { return g.state.Add(over) == over }

// closed reports whether the handler has returned.
func (g *guard) closed() bool { return g.state.Load()&over != 0 }
