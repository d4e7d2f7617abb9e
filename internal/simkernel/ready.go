package simkernel

import (
	"slices"
	"syscall"

	"github.com/spindleloop/spindle/internal/kernel"
)

// mask is what a descriptor is ready for, in the words of poll(2): the contract's
// Ready follows from it and from what was asked for.
type mask uint8

const (
	in       mask = 1 << iota // something to read, also the end
	out                       // room to write, or a failure
	peerShut                  // the peer will send no more
	hungUp                    // both directions are over
	failed                    // an error is pending
)

// ready is what to report to somebody who asked for want.
func (m mask) ready(want kernel.Interest) (r kernel.Ready) {
	m &= asked(want)
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

// asked is what of a mask concerns somebody who asked for want.
func asked(want kernel.Interest) mask {
	m := hungUp | failed
	if want&kernel.Read != 0 {
		m |= in | peerShut
	}
	if want&kernel.Write != 0 {
		m |= out
	}
	return m
}

// object is what a descriptor stands for.
type object interface {
	// readiness is what it is ready for now.
	readiness() mask
	// release is called when its descriptor was closed.
	release()
	// reset ends it as if its process had been killed.
	reset()
}

// file is a descriptor of a process, and its registration with the poller.
type file struct {
	p      *Process
	fd     int
	object object

	watched bool
	silent  bool // a one-shot that has fired
	queued  bool // in the ready list
	tok     kernel.Token
	want    kernel.Interest
	mode    kernel.Mode
}

// changed tells the poller that m has come true. It is for any file, also none.
func (f *file) changed(m mask) {
	if f == nil || !f.watched || f.silent || m&asked(f.want) == 0 {
		return
	}
	f.p.ready.push(f)
	f.p.goOn()
}

func (f *file) arm(p *Process, tok kernel.Token, want kernel.Interest, mode kernel.Mode) {
	if f.p != p { // handed over within a crew
		f.p.ready.remove(f)
		f.p = p
	}
	f.watched, f.silent = true, false
	f.tok, f.want, f.mode = tok, want, mode
	f.changed(f.object.readiness())
}

// readyList are the files that may have something to report, as in epoll: looked
// at again when they are reported, those of Level put back at the end.
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

// pop is nil for one that was removed.
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

// collect fills events. The order within a batch is one of the world's choices;
// who is in it is not, so that a full batch starves nobody.
func (l *readyList) collect(w *World, events []kernel.Event) (n int) {
	for left := len(l.files) - l.head; left > 0 && n < len(events); left-- {
		f := l.pop()
		if f == nil || !f.watched || f.silent {
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
			f.silent = true
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

// Add begins to watch a descriptor.
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

// Modify changes what is watched for, and reports it anew.
func (p *Process) Modify(fd int, tok kernel.Token, want kernel.Interest, mode kernel.Mode) error {
	f, err := p.watchedFile(fd)
	if err != nil {
		return err
	}
	f.arm(p, tok, want, mode)
	return nil
}

// Delete ends a watch.
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
