package relay

import (
	"sync"
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

// spareRequests are requests that are not in use.
var spareRequests = sync.Pool{New: func() any { return &outgoing{} }}

// newRequest returns a request with the deadline of a call that begins now.
func (c *Caller) newRequest(now time.Time, limit time.Duration) *outgoing {
	var r *outgoing
	if c.reuses {
		r = spareRequests.Get().(*outgoing)
	} else {
		r = &outgoing{}
	}
	r.origin.c, r.origin.deadline = c, now.Sub(c.epoch)+limit
	r.Deadline, r.from = limit, &r.origin
	return r
}

// release takes back the request of a call that has ended.
func (r *outgoing) release() {
	if r.origin.c.reuses {
		*r = outgoing{}
		spareRequests.Put(r)
	}
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
	return e.from != nil && e.from.c.local != nil && bus == e.from.c.bus
}
