package simkernel

import "fmt"

// Limits on how often a process may call Wait at one moment of time: after the
// first, other processes have their turn; after the second, Wait fails with
// ErrStandstill.
const (
	restLooks = 16
	mostLooks = 1 << 16
)

// rest lets others go first, if the process does not drive the world itself. It
// fails if the process has looked too often at one moment. One that goes on after
// that is only cleaning up, and is soon told again.
func (p *Process) rest() error {
	if p.looks > mostLooks || p.stuck && p.looks > mostLooks/16 {
		p.looks, p.stuck = 0, true
		return fmt.Errorf("%w (host %s)", ErrStandstill, p.host.name)
	}
	if p.yield == nil {
		return nil
	}
	p.state = waiting
	p.goOn()
	p.yield(struct{}{})
	return nil
}
