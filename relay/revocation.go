package relay

import "time"

// revocations are calls that were cancelled before their requests came: a cancellation can
// overtake a request that waits in a queue. Each is kept until the call's deadline, when
// its request is refused anyway. There are at most mostRevocations; the oldest goes first.
type revocations struct {
	until map[callKey]time.Time
	order []callKey // oldest first; may contain calls that were taken out
}

const mostRevocations = 4096

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
	r.until[key] = now.Add(remaining)
	r.order = append(r.order, key)
	return forgotten
}

// take removes a call, and reports whether it was there.
func (r *revocations) take(key callKey) bool {
	_, ok := r.until[key]
	delete(r.until, key)
	return ok
}
