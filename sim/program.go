package sim

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/simnet"
	"github.com/spindleloop/spindle/loop"
)

// program is what a host runs, and its process while it runs.
type program struct {
	host      *Host
	main      func(o loop.Options) error
	waitedFor bool
	state     programState
	process   *simnet.Process // nil when none runs
	cancel    func()          // for its own goroutine; nil if it has no tasks
	err       error           // how it ended
}

type programState uint8

const (
	programRuns programState = iota
	programEnded
	programCrashed
)

func (p *program) add() {
	w := p.host.w
	w.programs = append(w.programs, p)
	if p.waitedFor {
		w.pending++
	}
	if !p.host.Up() {
		p.state = programCrashed // Restart will start it
		return
	}
	p.start()
}

func (p *program) start() {
	process := p.host.core.NewProcess()
	p.process, p.cancel, p.state, p.err = process, nil, programRuns, nil
	p.host.w.live++
	var err error
	process.OnEnd = func() { p.ended(process, err) }
	process.Exec(func() {
		returned := false
		defer func() {
			if !returned {
				err = &spindle.PanicError{Value: loop.ErrGoexit, Stack: debug.Stack()}
			}
		}()
		fault, failure := try(func() error { return p.main(optionsOf(process.Kernel())) })
		if err = failure; fault != nil {
			err = fault
		}
		returned = true
	})
}

// ended is called when a process of the program has ended.
func (p *program) ended(process *simnet.Process, err error) {
	w := p.host.w
	w.live--
	if p.process != process { // a crash has ended it, and another has begun
		return
	}
	p.process = nil
	if p.state == programCrashed {
		return
	}
	p.state = programEnded
	if p.waitedFor {
		w.pending--
	}
	if p.err = err; err != nil && w.failure == nil && !errors.Is(err, errEnded) && !errors.Is(err, ErrDeadlock) {
		w.failure = &HostError{p.host.Name(), err}
	}
}

// stop asks the program to end. One without tasks cannot be asked.
func (p *program) stop() {
	process := p.process
	if process == nil {
		return
	}
	process.Interrupt(func() {
		if p.process == process && p.cancel != nil {
			p.cancel()
		}
	})
}

// force ends the program, and tells if it should have ended by itself.
func (p *program) force() error {
	if p.process == nil {
		return nil
	}
	p.process.Kill(errEnded)
	if p.cancel == nil {
		return nil
	}
	return &HostError{p.host.Name(), fmt.Errorf("sim: a program did not end within %v when it was cancelled", endGrace)}
}
