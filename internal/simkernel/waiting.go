package simkernel

import "time"

// beginWait makes the process wait, until it is made runnable or the timeout has passed.
func (p *Process) beginWait(timeout time.Duration) {
	p.state = waiting
	p.deadline = never
	if timeout < 0 {
		p.record(waits, -1, nil)
	} else {
		p.record(waits, int64(p.w.Now()+timeout), nil)
	}
	if timeout > 0 {
		c, now := p.host.clock.Load(), p.w.Now()
		if local := c.mono(now) + timeout; local > 0 { // otherwise it is too far in the future
			p.setTimer(c.until(now, local))
		}
	}
	if share := p.w.faultRates.Spurious; share > 0 && p.w.order.Float64() < share {
		p.w.at(p.w.Now()+time.Duration(p.w.order.Int64N(int64(maxSpurious))), spuriousWake, p, 0, 0)
	}
}

// maxSpurious is the maximal duration of a wait that ends for no reason.
const maxSpurious = 10 * time.Millisecond

func spuriousWake(on any, _, _ uint64) { on.(*Process).makeRunnable() }

// setTimer makes the process runnable at the given time. An earlier timer event sets the
// next one, so there is seldom more than one in the queue.
func (p *Process) setTimer(at time.Duration) {
	p.deadline = at
	if at < p.timer {
		p.timer = at
		p.w.at(at, timeOut, p, uint64(at), 0)
	}
}

func timeOut(on any, n, _ uint64) {
	p := on.(*Process)
	if p.timer != time.Duration(n) {
		return // a newer event has replaced it
	}
	p.timer = never
	switch {
	case p.state != waiting || p.deadline == never:
	case p.deadline <= p.w.Now():
		p.makeRunnable()
	default:
		p.setTimer(p.deadline)
	}
}
