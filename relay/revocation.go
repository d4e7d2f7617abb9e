package relay

import "time"

// revocations are calls that were cancelled before their requests came: a cancellation can
// overtake a request that waits in a queue. Each is kept until the call's deadline, when
// its request is refused anyway. There are at most mostRevocations; the oldest goes first.
type revocations struct {
	until map[callKey]time.Time
	order []callKey // oldest first; may contain calls that were taken out
}

// mostRevocations is enough for many workers with full queues: every worker of a subject gets
// the cancellations of all calls that no worker has answered.
const mostRevocations = 1 << 16

// add adds a call. It reports whether another one had to go before its time.
func (r *revocations) add(key callKey, now time.Time, remaining time.Duration) (forgotten bool) {
	if r.until == nil {
		r.until = map[callKey]time.Time{}
	}
	if _, ok := r.until[key]; ok {
		return false
	}
	for len(r.order) > 0 {
		until, ok := r.until[r.order[0]]
		full := len(r.order) >= mostRevocations
		if ok && now.Before(until) && !full {
			break
		}
		forgotten = forgotten || ok && now.Before(until)
		delete(r.until, r.order[0])
		r.order = r.order[1:]
	}
	if n := len(r.order); n > 0 && r.order[n-1].replyTo == key.replyTo {
		key.replyTo = r.order[n-1].replyTo // the same memory: the string may be a part of a message
	}
	r.until[key] = now.Add(remaining)
	r.order = append(r.order, key)
	return forgotten
}

// take removes a call, and reports whether it was there.
func (r *revocations) take(key callKey) bool {
	_, ok := r.until[key]
	if delete(r.until, key); ok && len(r.until) == 0 {
		*r = revocations{} // maps do not shrink
	}
	return ok
}
