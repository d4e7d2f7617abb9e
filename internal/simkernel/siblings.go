package simkernel

import (
	"context"
	"net/netip"
	"time"
)

// What a kernel is besides sockets and readiness: a clock, random numbers, workers
// and names.

// Mono may be called from any goroutine.
func (p *Process) Mono() time.Duration { return p.host.clock.Load().mono(p.w.Now()) }

// Begin is when simulated time begins.
var Begin = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Wall may be called from any goroutine.
func (p *Process) Wall() time.Time {
	c := p.host.clock.Load()
	return Begin.Add(c.mono(p.w.Now()) + c.off)
}

// At may be called from any goroutine. It does not depend on SetClock, as times with a
// monotonic reading do not depend on the system clock.
func (p *Process) At(mono time.Duration) time.Time { return Begin.Add(mono) }

// Uint64 may be called from any goroutine.
func (p *Process) Uint64() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rand.Uint64()
}

// Start may be called from any goroutine. The work is done inside Wait, when
// every process waits: so it runs at the same moment in every run.
func (p *Process) Start(work func()) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.work = append(p.work, work)
	p.w.busy = append(p.w.busy, p)
}

// finishWork does what workers were given and did not come to. For real they would go
// on, whatever has become of their loop, and see to what it has left.
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

// LookupNetIP may be called from any goroutine.
func (p *Process) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	return p.host.lookup(network, host)
}
