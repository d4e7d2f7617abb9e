package relay

import (
	"runtime"
	"weak"

	"github.com/spindleloop/spindle/internal/probe"
)

// visible makes an inspector show the calls of c, unless c is in a simulated world.
func (c *Caller) visible() {
	if l := c.clock.l; l == nil || l.Internal().Kernel().Real() {
		probe.AddCaller(probedCaller(c))
		probe.AddMetered(probedCaller(c))
		runtime.AddCleanup(c, hide, probedCaller(c)) // if it is not closed
	}
}

// hide reverses visible.
func hide(p probed) {
	probe.RemoveCaller(p)
	probe.RemoveMetered(p)
}

// probed is a Caller as package inspect sees it. It does not keep the Caller alive.
type probed struct{ caller weak.Pointer[Caller] }

func probedCaller(c *Caller) probed { return probed{weak.Make(c)} }

// ProbeCalls describes calls that wait. It holds the lock only while it copies some fields:
// calls need the lock as well.
func (p probed) ProbeCalls(limit int) (calls []probe.Call, waiting int) {
	c := p.caller.Value()
	if c == nil {
		return nil, 0
	}
	calls = make([]probe.Call, 0, min(limit, c.o.MaxWaiters))
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.now()
	for i := range c.reg.slots {
		if len(calls) == cap(calls) {
			break
		}
		if w := c.reg.slots[i].w; w != nil {
			left, _ := w.req.remaining(now)
			calls = append(calls, probe.Call{
				ID: w.req.ID, Subject: w.req.Subject, Trace: w.req.Trace.ID,
				Age: w.req.Deadline - left, Left: left, Stream: w.stream, Task: w.home.l != nil,
			})
		}
	}
	return calls, c.reg.n
}
