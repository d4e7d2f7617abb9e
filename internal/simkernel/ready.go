package simkernel

import (
	"slices"
	"syscall"

	"github.com/spindleloop/spindle/internal/kernel"
)

// mask is what a descriptor is ready for, in the terms of poll(2). The contract's Ready
// follows from it and from the interest.
type mask uint8

const (
	in       mask = 1 << iota // data or the end of the stream can be read
	out                       // the send buffer has space, or writing fails
	peerShut                  // the peer has ended sending
	hungUp                    // both directions have ended
	failed                    // an error is pending
)

// ready returns the readiness to report for an interest.
func (m mask) ready(want kernel.Interest) (r kernel.Ready) {
	m &= interestMask(want)
	if m&in != 0 {
		r |= kernel.Readable
	}
	if m&out != 0 {
		r |= kernel.Writable
	}
	if m&peerShut != 0 {
		r |= kernel.HangUp | kernel.Readable
	}
	if m&(hungUp|failed) != 0 {
		r |= kernel.HangUp | kernel.Readable | kernel.Writable
	}
	if m&failed != 0 {
		r |= kernel.Failed
	}
	return r
}

// interestMask returns the part of a mask that is reported for an interest.
func interestMask(want kernel.Interest) mask {
	m := hungUp | failed
	if want&kernel.Read != 0 {
		m |= in | peerShut
	}
	if want&kernel.Write != 0 {
		m |= out
	}
	return m
}

// object is what a descriptor refers to.
type object interface {
	// readiness returns what the object is ready for now.
	readiness() mask
	// release is called when the descriptor is closed.
	release()
	// reset is called when the process is killed, before release.
	reset()
}

// file is a descriptor of a process, and its registration with the poller.
type file struct {
	p      *Process
	fd     int
	object object

	watched bool
	fired   bool // a one-shot registration has reported its event
	queued  bool // in the ready list
	tok     kernel.Token
	want    kernel.Interest
	mode    kernel.Mode
}

// changed tells the poller that the file has become ready for m. f may be nil.
func (f *file) changed(m mask) {
	if f == nil || !f.watched || f.fired || m&interestMask(f.want) == 0 {
		return
	}
	f.p.ready.push(f)
	f.p.makeRunnable()
}

func (f *file) arm(p *Process, tok kernel.Token, want kernel.Interest, mode kernel.Mode) {
	if f.p != p { // another sibling watches it now
		f.p.ready.remove(f)
		f.p = p
	}
	f.watched, f.fired = true, false
	f.tok, f.want, f.mode = tok, want, mode
	f.changed(f.object.readiness())
}

// readyList has the files that may be ready, as in epoll. Their readiness is checked again
// when they are reported. Level-triggered files are put back at the end.
type readyList struct {
	files []*file
	head  int
}

func (l *readyList) push(f *file) {
	if f.queued {
		return
	}
	f.queued = true
	if l.head > 32 && l.head*2 > len(l.files) {
		n := copy(l.files, l.files[l.head:])
		clear(l.files[n:])
		l.files, l.head = l.files[:n], 0
	}
	l.files = append(l.files, f)
}

// pop removes and returns the first file. It returns nil for one that was removed.
func (l *readyList) pop() *file {
	f := l.files[l.head]
	l.files[l.head] = nil
	l.head++
	if f != nil {
		f.queued = false
	}
	return f
}

func (l *readyList) remove(f *file) {
	if i := slices.Index(l.files[l.head:], f); i >= 0 {
		l.files[l.head+i] = nil
		f.queued = false
	}
}

// collect fills events. The order within a batch is drawn from the seed. Which files are in
// it is not, so that no file starves when batches are full.
func (l *readyList) collect(w *World, events []kernel.Event) (n int) {
	for left := len(l.files) - l.head; left > 0 && n < len(events); left-- {
		f := l.pop()
		if f == nil || !f.watched || f.fired {
			continue
		}
		r := f.object.readiness().ready(f.want)
		if r == 0 {
			continue
		}
		events[n] = kernel.Event{Token: f.tok, Ready: r}
		n++
		switch f.mode {
		case kernel.Level:
			l.push(f)
		case kernel.OneShot:
			f.fired = true
		}
	}
	if l.head == len(l.files) {
		l.files, l.head = l.files[:0], 0
	}
	if n > 1 {
		w.order.Shuffle(n, func(i, j int) { events[i], events[j] = events[j], events[i] })
	}
	return n
}

// Add starts watching a descriptor.
func (p *Process) Add(fd int, tok kernel.Token, want kernel.Interest, mode kernel.Mode) error {
	f, err := p.file(fd)
	if err != nil {
		return err
	}
	if f.watched {
		return syscall.EEXIST
	}
	if err := p.host.fault("add"); err != nil {
		return err
	}
	f.arm(p, tok, want, mode)
	return nil
}

// Modify changes the interest, and reports present readiness again.
func (p *Process) Modify(fd int, tok kernel.Token, want kernel.Interest, mode kernel.Mode) error {
	f, err := p.watchedFile(fd)
	if err != nil {
		return err
	}
	f.arm(p, tok, want, mode)
	return nil
}

// Delete stops watching a descriptor.
func (p *Process) Delete(fd int) error {
	f, err := p.watchedFile(fd)
	if err != nil {
		return err
	}
	f.watched = false
	return nil
}

func (p *Process) watchedFile(fd int) (*file, error) {
	f, err := p.file(fd)
	if err == nil && !f.watched {
		err = syscall.ENOENT
	}
	return f, err
}
