package simkernel

import "fmt"

// Limits on how often a process may call Wait at one time. After pollsPerTurn calls, other
// processes run. After maxPolls calls, Wait fails with ErrStandstill.
const (
	pollsPerTurn = 16
	maxPolls     = 1 << 16
)

// yieldTurn lets other processes run, unless the process drives the world itself. It fails
// if the process has called Wait too often at one time. A process that continues after
// that is only cleaning up, so it fails again much sooner.
func (p *Process) yieldTurn() error {
	if p.polls > maxPolls || p.standstill && p.polls > maxPolls/16 {
		p.polls, p.standstill = 0, true
		return fmt.Errorf("%w (host %s)", ErrStandstill, p.host.name)
	}
	if p.yield == nil {
		return nil
	}
	p.state = waiting
	p.makeRunnable()
	p.yield()
	return nil
}
