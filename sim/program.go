package sim

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/simkernel"
	"github.com/spindleloop/spindle/loop"
)

// program is a program of a host, and its process while it runs.
type program struct {
	host      *Host
	main      func(o loop.Options) error
	waitedFor bool // World.Run waits until it returns
	state     programState
	process   *simkernel.Process // nil while it does not run
	cancel    func()             // called on the program's goroutine; nil for programs of Exec
	err       error              // the error it returned
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
	if p.host.w.closing { // nothing would cancel it
		p.state = programCrashed
		return
	}
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
		fault, failure := try(func() error { return p.main(optionsOf(p.host.Name(), process.Kernel())) })
		if err = failure; fault != nil {
			err = fault
		}
		returned = true
	})
}

// ended records the end of a process of the program.
func (p *program) ended(process *simkernel.Process, err error) {
	w := p.host.w
	w.live--
	if p.process != process { // it crashed, and Restart started another process
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
		w.failure = ofHost(p.host, err)
	}
}

// stop cancels the program. A program of Exec cannot be cancelled.
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

// force kills the program if it still runs. It returns an error if the program
// ignored its cancellation.
func (p *program) force() error {
	if p.process == nil {
		return nil
	}
	p.process.Kill(errEnded)
	if p.cancel == nil {
		return nil
	}
	return ofHost(p.host, fmt.Errorf("sim: a program did not return within %v after it was cancelled", endGrace))
}
