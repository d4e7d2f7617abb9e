//go:build linux || darwin || dragonfly || freebsd || netbsd

package kernel

import (
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// poll is a poller for every Unix: each Wait passes all descriptors to poll(2). It
// is the fallback, and running the tests on it shows that nothing depends on epoll.
//
// It has no edges: Edge is Level here, which the contract allows. A one-shot that
// has fired keeps its row with a negative descriptor, which poll(2) skips.
type poll struct {
	waker *waker
	fds   []unix.PollFd // row 0 is the waker
	regs  []pollReg     // parallel to fds
	row   map[int]int   // descriptor to row
	first int           // the row at which the next scan starts, so that full batches starve no descriptor
}

type pollReg struct {
	tok  Token
	in   Interest
	mode Mode
}

func openPoll() (Poller, error) {
	w, err := newWaker()
	if err != nil {
		return nil, err
	}
	return &poll{
		waker: w,
		fds:   []unix.PollFd{{Fd: int32(w.r), Events: unix.POLLIN}},
		regs:  []pollReg{{tok: wakeToken}},
		row:   map[int]int{},
	}, nil
}

func (p *poll) Name() string { return "poll" }

func (p *poll) Add(fd int, tok Token, in Interest, mode Mode) error {
	if _, ok := p.row[fd]; ok {
		return unix.EEXIST
	}
	if err := checkPollable(fd); err != nil {
		return err
	}
	p.row[fd] = len(p.fds)
	p.fds = append(p.fds, unix.PollFd{Fd: int32(fd), Events: pollEvents(in)})
	p.regs = append(p.regs, pollReg{tok, in, mode})
	return nil
}

// checkPollable returns EPERM for a regular file or a directory. poll(2) and kqueue
// accept them; epoll and the contract do not.
func checkPollable(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if kind := uint32(st.Mode) & unix.S_IFMT; kind == unix.S_IFREG || kind == unix.S_IFDIR {
		return unix.EPERM
	}
	return nil
}

func (p *poll) Modify(fd int, tok Token, in Interest, mode Mode) error {
	i, ok := p.row[fd]
	if !ok {
		return unix.ENOENT
	}
	p.fds[i] = unix.PollFd{Fd: int32(fd), Events: pollEvents(in)}
	p.regs[i] = pollReg{tok, in, mode}
	return nil
}

func (p *poll) Delete(fd int) error {
	i, ok := p.row[fd]
	if !ok {
		return unix.ENOENT
	}
	delete(p.row, fd)
	last := len(p.fds) - 1
	if i != last {
		p.fds[i], p.regs[i] = p.fds[last], p.regs[last]
		moved := int(p.fds[i].Fd)
		if moved < 0 {
			moved = ^moved
		}
		p.row[moved] = i
	}
	p.fds, p.regs = p.fds[:last], p.regs[:last]
	return nil
}

func (p *poll) Wait(events []Event, timeout time.Duration) (int, error) {
	pending, err := pollWait(p.fds, timeout)
	switch err {
	case nil:
	case unix.EINTR:
		return 0, nil
	default:
		return 0, err
	}
	if pending > 0 && p.fds[0].Revents != 0 {
		p.waker.drain()
		pending--
	}
	rows := len(p.fds) - 1
	out := 0
	for i := 0; i < rows && pending > 0 && out < len(events); i++ {
		at := 1 + (p.first+i)%rows
		got := p.fds[at].Revents
		if got == 0 {
			continue
		}
		pending--
		reg := p.regs[at]
		events[out] = Event{reg.tok, pollReady(got)}
		out++
		// poll(2) would report a closed descriptor in every Wait.
		if reg.mode == OneShot || got&unix.POLLNVAL != 0 {
			p.fds[at].Fd = ^p.fds[at].Fd
		}
		if out == len(events) {
			p.first = at % rows
		}
	}
	return out, nil
}

func (p *poll) Wake() { p.waker.wake() }

func (p *poll) Close() error {
	p.waker.close()
	return nil
}

func pollEvents(in Interest) (e int16) {
	if in&Read != 0 {
		e |= unix.POLLIN | pollHalfClosed
	}
	if in&Write != 0 {
		e |= unix.POLLOUT
	}
	return e
}

func pollReady(e int16) (r Ready) {
	if e&unix.POLLIN != 0 {
		r |= Readable
	}
	if e&unix.POLLOUT != 0 {
		r |= Writable
	}
	if e&pollHalfClosed != 0 {
		r |= HangUp | Readable
	}
	if e&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0 {
		r |= HangUp | Readable | Writable
	}
	if e&(unix.POLLERR|unix.POLLNVAL) != 0 {
		r |= Failed
	}
	return r
}

// millis converts a timeout for calls that count in milliseconds. It rounds up, so
// that the loop does not wake before its next timer is due. It returns -1 for no
// limit.
func millis(timeout time.Duration) int {
	if timeout < 0 {
		return -1
	}
	ms := timeout / time.Millisecond
	if timeout%time.Millisecond != 0 {
		ms++
	}
	return int(min(ms, math.MaxInt32))
}
