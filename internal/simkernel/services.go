package simkernel

import (
	"context"
	"net/netip"
	"time"
)

// The parts of a kernel besides sockets and readiness: clock, random numbers, workers and
// name lookup.

// Mono returns the host's monotonic time. It may be called from any goroutine.
func (p *Process) Mono() time.Duration { return p.host.clock.Load().mono(p.w.Now()) }

// Begin is when simulated time begins.
var Begin = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Wall returns the host's time of day. It may be called from any goroutine.
func (p *Process) Wall() time.Time {
	c := p.host.clock.Load()
	return Begin.Add(c.mono(p.w.Now()) + c.off)
}

// At converts a monotonic time to a time.Time. It may be called from any goroutine. The
// result does not depend on SetClock, as times with a monotonic reading do not depend on
// the system clock.
func (p *Process) At(mono time.Duration) time.Time { return Begin.Add(mono) }

// Uint64 returns a random number. It may be called from any goroutine.
func (p *Process) Uint64() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rand.Uint64()
}

// Start starts offloaded work. It may be called from any goroutine. The work runs inside
// Wait, when every process waits, so that it runs at the same time in every run.
func (p *Process) Start(work func()) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.work = append(p.work, work)
	p.w.busy = append(p.w.busy, p)
}

// finishWork runs the work that has not started when the process ends. Real workers would
// also continue after their loop has ended.
func (p *Process) finishWork() {
	for {
		p.w.mu.Lock()
		if len(p.work) == 0 {
			p.w.mu.Unlock()
			return
		}
		work := p.work[0]
		p.work = p.work[1:]
		p.w.mu.Unlock()
		work()
	}
}

// LookupNetIP resolves a host name. It may be called from any goroutine.
func (p *Process) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	return p.host.lookup(network, host)
}
