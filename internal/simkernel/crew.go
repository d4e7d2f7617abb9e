package simkernel

import (
	"strconv"

	"github.com/spindleloop/spindle/internal/kernel"
)

// A crew is several pollers in one process, as a group of loops has them: their
// descriptors are the same, and one of them runs at a time, like everybody else.

// Processors is how many loops a group has that asks for one on each.
func (p *Process) Processors() int { return 2 }

// Sibling makes another member of the process's crew.
func (p *Process) Sibling() (*kernel.Kernel, error) {
	if err := p.room(); err != nil { // a real one has descriptors of its own
		return nil, err
	}
	w := p.w
	w.pids++
	m := &Process{w: w, host: p.host, id: w.pids, leader: p, files: p.files, timer: never,
		rand: w.Rand("process " + p.host.name + " " + strconv.Itoa(int(w.pids)))}
	p.crew = append(p.crew, m)
	return m.Kernel(), nil
}

// Together runs a function for the process and one for each of its siblings, and
// returns when all have returned. The process's own runs here.
func (p *Process) Together(run []func()) {
	left := len(p.crew)
	for i, m := range p.crew {
		m.begun(run[i+1], func() {
			if left--; left == 0 {
				p.goOn()
			}
		})
	}
	run[0]()
	for left > 0 {
		p.state = waiting
		if p.yield != nil {
			if err := p.unlocked(); err != nil {
				panic(err)
			}
			p.yield(struct{}{})
		} else if err := p.w.Drive(func() bool { return left == 0 }); err != nil {
			p.w.Fail(err) // so that they end
		}
		p.state, p.failure = running, nil
	}
}

// begun lets a member run, from the beginning.
func (p *Process) begun(main, ended func()) {
	p.next, p.yield, p.dead, p.OnEnd = nil, nil, false, ended
	p.timer, p.deadline = never, never
	p.w.processes = append(p.w.processes, p)
	p.Exec(main)
}
