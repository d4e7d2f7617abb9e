package relay

import "github.com/spindleloop/spindle/internal/probe"

// visible makes an inspector show the calls of c, unless c is in a simulated world.
func (c *Caller) visible() {
	if l := c.clock.l; l == nil || l.Internal().Kernel().Real() {
		probe.AddCaller(probed{c})
	}
}

// probed is a Caller as package inspect sees it.
type probed struct{ c *Caller }

// ProbeCalls describes calls that wait. It holds the lock only while it copies some fields:
// calls need the lock as well.
func (p probed) ProbeCalls(limit int) (calls []probe.Call, waiting int) {
	calls = make([]probe.Call, 0, min(limit, p.c.o.MaxWaiters))
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	now := p.c.clock.now()
	for i := range p.c.reg.slots {
		if len(calls) == cap(calls) {
			break
		}
		if w := p.c.reg.slots[i].w; w != nil {
			left, _ := w.req.remaining(now)
			calls = append(calls, probe.Call{
				ID: w.req.ID, Subject: w.req.Subject, Trace: w.req.Trace.ID,
				Age: w.req.Deadline - left, Left: left, Stream: w.stream, Task: w.scope != nil,
			})
		}
	}
	return calls, p.c.reg.n
}
