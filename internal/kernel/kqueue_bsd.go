//go:build darwin || dragonfly || freebsd || netbsd

package kernel

import (
	"time"

	"golang.org/x/sys/unix"
)

// kqueue is the poller of the BSDs and macOS.
//
// kqueue has one filter per direction; the contract has one registration per
// descriptor. A table from descriptor to registration connects the two. It holds
// the token: in udata it would be an integer in a pointer's place, which the garbage
// collector must not see. The table also serves to merge two filters that fire in
// one batch, and to disarm the other direction of a one-shot.
type kqueue struct {
	fd    int
	waker *waker
	buf   []unix.Kevent_t
	regs  map[int]*kqueueReg
	batch int // the number of the current Wait
}

type kqueueReg struct {
	tok   Token
	in    Interest
	mode  Mode
	batch int // the last Wait that reported it
	index int // its index in the events of that Wait
}

func openKqueue() (Poller, error) {
	fd, err := unix.Kqueue()
	if err != nil {
		return nil, err
	}
	unix.CloseOnExec(fd)
	p := &kqueue{fd: fd, regs: map[int]*kqueueReg{}}
	if p.waker, err = newWaker(); err != nil {
		unix.Close(fd)
		return nil, err
	}
	if err := p.Add(p.waker.r, wakeToken, Read, Level); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *kqueue) Name() string { return "kqueue" }

func (p *kqueue) Add(fd int, tok Token, in Interest, mode Mode) error {
	if p.regs[fd] != nil {
		return unix.EEXIST
	}
	if err := checkPollable(fd); err != nil {
		return err
	}
	if err := p.arm(fd, in, mode); err != nil {
		p.disarm(fd, in)
		return err
	}
	p.regs[fd] = &kqueueReg{tok: tok, in: in, mode: mode}
	return nil
}

// Modify deletes before it adds: an EV_ADD on a filter that exists does not
// change its EV_CLEAR or EV_ONESHOT.
func (p *kqueue) Modify(fd int, tok Token, in Interest, mode Mode) error {
	reg := p.regs[fd]
	if reg == nil {
		return unix.ENOENT
	}
	p.disarm(fd, reg.in)
	reg.tok, reg.in, reg.mode = tok, in, mode
	return p.arm(fd, in, mode)
}

func (p *kqueue) Delete(fd int) error {
	reg := p.regs[fd]
	if reg == nil {
		return unix.ENOENT
	}
	delete(p.regs, fd)
	p.disarm(fd, reg.in)
	return nil
}

var kqueueFilters = [...]struct {
	in     Interest
	filter int
}{{Read, unix.EVFILT_READ}, {Write, unix.EVFILT_WRITE}}

func (p *kqueue) arm(fd int, in Interest, mode Mode) error {
	flags := unix.EV_ADD
	switch mode {
	case Edge:
		flags |= unix.EV_CLEAR
	case OneShot:
		flags |= unix.EV_ONESHOT
	}
	for _, f := range kqueueFilters {
		if in&f.in == 0 {
			continue
		}
		if err := p.change(fd, f.filter, flags); err != nil {
			return err
		}
	}
	return nil
}

// disarm ignores errors: the filter may have fired as a one-shot, or its descriptor
// may be closed.
func (p *kqueue) disarm(fd int, in Interest) {
	for _, f := range kqueueFilters {
		if in&f.in != 0 {
			_ = p.change(fd, f.filter, unix.EV_DELETE)
		}
	}
}

func (p *kqueue) change(fd, filter, flags int) error {
	var ch [1]unix.Kevent_t
	unix.SetKevent(&ch[0], fd, filter, flags)
	for {
		if _, err := unix.Kevent(p.fd, ch[:], nil, nil); err != unix.EINTR {
			return err
		}
	}
}

func (p *kqueue) Wait(events []Event, timeout time.Duration) (int, error) {
	if len(p.buf) < len(events) {
		p.buf = make([]unix.Kevent_t, len(events))
	}
	buf := p.buf[:len(events)]
	var ts *unix.Timespec
	if timeout >= 0 {
		t := unix.NsecToTimespec(int64(min(timeout, longestWait)))
		ts = &t
	}
	n, err := unix.Kevent(p.fd, nil, buf, ts)
	switch err {
	case nil:
	case unix.EINTR:
		return 0, nil
	default:
		return 0, err
	}
	p.batch++
	out := 0
	for i := range buf[:n] {
		out = p.collect(&buf[i], events, out)
	}
	return out, nil
}

// longestWait is the longest timeout that macOS accepts. After it, the caller reads
// the clock and waits again.
const longestWait = 1e6 * time.Second

// collect adds ev to the first out events and returns their new number.
func (p *kqueue) collect(ev *unix.Kevent_t, events []Event, out int) int {
	fd := int(ev.Ident)
	reg := p.regs[fd]
	if reg == nil {
		return out
	}
	if reg.tok == wakeToken {
		p.waker.drain()
		return out
	}
	ready := kqueueReady(ev)
	if reg.batch == p.batch {
		events[reg.index].Ready |= ready
		return out
	}
	reg.batch, reg.index = p.batch, out
	events[out] = Event{reg.tok, ready}
	if reg.mode == OneShot {
		p.disarm(fd, reg.in)
	}
	return out + 1
}

func kqueueReady(ev *unix.Kevent_t) (r Ready) {
	switch int(ev.Filter) {
	case unix.EVFILT_READ:
		r = Readable
	case unix.EVFILT_WRITE:
		r = Writable
	}
	if ev.Flags&unix.EV_EOF != 0 {
		r |= HangUp
		if ev.Fflags != 0 { // the socket's error
			r |= Failed
		}
	}
	if ev.Flags&unix.EV_ERROR != 0 {
		r |= HangUp | Failed
	}
	return r
}

func (p *kqueue) Wake() { p.waker.wake() }

func (p *kqueue) Close() error {
	p.waker.close()
	return unix.Close(p.fd)
}
