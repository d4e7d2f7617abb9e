package simkernel

import (
	"fmt"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
)

// A stepped process has no coroutine. Its program is not written in Go, and runs in steps:
// Next returns the process that runs next, its program runs until it has nothing to do, and
// Park ends the step. The order of processes, time and readiness are those of other
// processes.

// ExecStepped makes p a process that runs in steps. Its first step comes when the world is
// next driven.
func (p *Process) ExecStepped() {
	p.stepped = true
	p.w.alone.CompareAndSwap(p, nil)
	p.state = waiting
	p.makeRunnable()
}

// Next drives the world until a stepped process is to run. It returns the process and fills
// events with what is ready. It returns no process if done is true first. It fails with
// ErrDeadlock if nothing can happen any more, and with ErrStandstill if the process has run
// too often at one time.
func (w *World) Next(events []kernel.Event, done func() bool) (p *Process, n int, err error) {
	for w.stepping == nil {
		if done() {
			return nil, 0, nil
		}
		if err := w.advance(); err != nil {
			return nil, 0, err
		}
	}
	p, w.stepping = w.stepping, nil
	if now := w.Now(); now != p.polledAt {
		p.polledAt, p.polls = now, 0
	}
	if p.polls++; p.polls > maxPolls {
		p.polls = 0
		return p, 0, fmt.Errorf("%w (host %s)", ErrStandstill, p.host.name)
	}
	return p, p.ready.collect(w, events), nil
}

// step makes p the process that Next returns.
func (p *Process) step() {
	if p.state == ended {
		return
	}
	p.state = running
	p.w.current.Store(p)
	p.w.stepping = p
}

// Park ends a step: the process waits until something is ready or the timeout has passed,
// without limit if it is negative. With a timeout of 0 it runs again after the others.
func (p *Process) Park(timeout time.Duration) {
	p.w.current.Store(nil)
	if p.state != running {
		return
	}
	if timeout == 0 || p.ready.pending() {
		p.state = waiting
		p.makeRunnable()
		return
	}
	p.beginWait(timeout)
}

// Rouse makes a stepped process that waits run.
func (p *Process) Rouse() { p.makeRunnable() }

// Readiness returns what a descriptor is ready for now, as poll(2) with no timeout does.
func (p *Process) Readiness(fd int, want kernel.Interest) (kernel.Ready, error) {
	f, err := p.file(fd)
	if err != nil {
		return 0, err
	}
	return f.object.readiness().ready(want), nil
}

// Exit ends a stepped process and closes its descriptors.
func (p *Process) Exit() {
	if p.w.current.Load() == p {
		p.w.current.Store(nil)
	}
	p.end()
}

// pending reports whether a file in the list is ready.
func (l *readyList) pending() bool {
	for _, f := range l.files[l.head:] {
		if f != nil && f.watched && !f.fired && f.object.readiness().ready(f.want) != 0 {
			return true
		}
	}
	return false
}
