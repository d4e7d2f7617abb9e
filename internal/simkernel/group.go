package simkernel

import (
	"strconv"

	"github.com/spindleloop/spindle/internal/kernel"
)

// A group of loops is several pollers in one process. They share their descriptors and
// otherwise take turns like other processes.

// Processors returns the number of processors that a group of loops sees.
func (p *Process) Processors() int { return 2 }

// Sibling makes another poller of the process.
func (p *Process) Sibling() (*kernel.Kernel, error) {
	if err := p.canOpen(); err != nil { // a real poller needs descriptors
		return nil, err
	}
	w := p.w
	w.pids++
	m := &Process{w: w, host: p.host, id: w.pids, leader: p, files: p.files, timer: never,
		rand: w.Rand("process " + p.host.name + " " + strconv.Itoa(int(w.pids)))}
	p.siblings = append(p.siblings, m)
	return m.Kernel(), nil
}

// Together runs a function for the process and one for each of its siblings. It returns
// when all have returned. The function of the process runs on the calling goroutine.
func (p *Process) Together(run []func()) {
	left := len(p.siblings)
	for i, m := range p.siblings {
		m.startSibling(run[i+1], func() {
			if left--; left == 0 {
				p.makeRunnable()
			}
		})
	}
	run[0]()
	for left > 0 {
		p.state = waiting
		if p.yield != nil {
			if err := p.checkUnlocked(); err != nil {
				panic(err)
			}
			p.yield()
		} else if err := p.w.Drive(func() bool { return left == 0 }); err != nil {
			p.w.Fail(err) // so that the siblings end
		}
		p.state, p.failure = running, nil
	}
}

// startSibling starts main on the sibling. ended is called when main has returned.
func (p *Process) startSibling(main, ended func()) {
	p.next, p.yield, p.dead, p.OnEnd = nil, nil, false, ended
	p.timer, p.deadline = never, never
	p.w.processes = append(p.w.processes, p)
	p.Exec(main)
}
