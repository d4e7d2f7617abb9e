package relay

import (
	"sync/atomic"
	"time"
)

// origin is what a request has in the process of its Caller only. It is not a part of the
// envelope, because programs may copy an envelope at any time; copies share their origin.
type origin struct {
	c         *Caller
	deadline  time.Duration // since c.epoch
	abandoned atomic.Bool   // the call has ended without a reply; set under c.mu
}

// outgoing is a request with its origin.
type outgoing struct {
	Envelope
	origin origin
}

// newRequest returns a request with the deadline of a call that begins now.
func (c *Caller) newRequest(now time.Time, limit time.Duration) *outgoing {
	r := &outgoing{origin: origin{c: c, deadline: now.Sub(c.epoch) + limit}}
	r.Deadline, r.from = limit, &r.origin
	return r
}

// due returns the deadline on the clock of this machine. It is zero if only Deadline counts.
func (e *Envelope) due() time.Time {
	if e.from == nil {
		return time.Time{}
	}
	return e.from.c.epoch.Add(e.from.deadline)
}

// isAbandoned reports whether the call of a request has ended without a reply. The result is
// false if that cannot be known here. A copy with another address for replies is not of the call.
func (e *Envelope) isAbandoned() bool {
	return e.from != nil && e.from.abandoned.Load() && e.ReplyTo == e.from.c.inbox
}

// isLocal reports whether the sender and a receiver use the same Local, where requests keep
// their origin.
func (e *Envelope) isLocal(bus Bus) bool {
	return e.from != nil && e.from.c.local && bus == e.from.c.bus
}
