package kernel

import (
	"errors"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// epoll is the poller of Linux.
//
// The token travels in epoll_data, so an event identifies its registration without
// a table. A poll with timeout 0 is a RawSyscall: it cannot block, and notifying
// Go's scheduler costs more than the call. Wait polls before it sleeps, because
// under load something is nearly always ready, and then the loop keeps its
// processor.
type epoll struct {
	fd       int
	waker    *waker
	buf      []unix.EpollEvent
	noPwait2 bool // epoll_pwait2 is missing: use milliseconds, rounded up
	shared   bool // other code polls it too; see Share
}

func openEpoll() (Poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	p := &epoll{fd: fd}
	if p.waker, err = newWaker(); err != nil {
		unix.Close(fd)
		return nil, err
	}
	if err := p.Add(p.waker.r, wakeToken, Read, Edge); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *epoll) Name() string { return "epoll" }

func (p *epoll) Add(fd int, tok Token, in Interest, mode Mode) error {
	return p.ctl(unix.EPOLL_CTL_ADD, fd, tok, in, mode)
}

func (p *epoll) Modify(fd int, tok Token, in Interest, mode Mode) error {
	return p.ctl(unix.EPOLL_CTL_MOD, fd, tok, in, mode)
}

func (p *epoll) Delete(fd int) error {
	return unix.EpollCtl(p.fd, unix.EPOLL_CTL_DEL, fd, nil)
}

func (p *epoll) ctl(op, fd int, tok Token, in Interest, mode Mode) error {
	if p.shared && mode != Level {
		return errShared
	}
	ev := unix.EpollEvent{Fd: int32(uint32(tok)), Pad: int32(uint32(tok >> 32))}
	if in&Read != 0 {
		// RDHUP only with Read: otherwise a peer that closed its half would
		// wake a level-triggered writer again and again.
		ev.Events |= unix.EPOLLIN | unix.EPOLLRDHUP
	}
	if in&Write != 0 {
		ev.Events |= unix.EPOLLOUT
	}
	switch mode {
	case Edge:
		ev.Events |= unix.EPOLLET
		if in&Read != 0 {
			// With edges, a reader may treat a short read as the last one.
			// That is wrong where urgent data begins, so Urgent reports it.
			// In level mode, unread urgent data would be reported in every
			// Wait.
			ev.Events |= unix.EPOLLPRI
		}
	case OneShot:
		ev.Events |= unix.EPOLLONESHOT
	}
	return unix.EpollCtl(p.fd, op, fd, &ev)
}

func (p *epoll) Wait(events []Event, timeout time.Duration) (int, error) {
	if len(p.buf) < len(events) {
		p.buf = make([]unix.EpollEvent, len(events))
	}
	buf := p.buf[:len(events)]
	n, errno := p.poll(buf)
	if n == 0 && errno == 0 && timeout != 0 {
		n, errno = p.sleep(buf, timeout)
	}
	switch errno {
	case 0:
	case unix.EINTR:
		return 0, nil
	default:
		return 0, errno
	}
	out := 0
	for i := range buf[:n] {
		ev := &buf[i]
		tok := Token(uint32(ev.Fd)) | Token(uint32(ev.Pad))<<32
		if tok == wakeToken {
			p.waker.reset()
			continue
		}
		events[out] = Event{tok, epollReady(ev.Events)}
		out++
	}
	return out, nil
}

// epollReady returns the readiness that e stands for. It reports errors and hang-ups
// in both directions; the caller masks directions outside its interest.
func epollReady(e uint32) Ready {
	var r Ready
	if e&unix.EPOLLIN != 0 {
		r |= Readable
	}
	if e&unix.EPOLLOUT != 0 {
		r |= Writable
	}
	if e&unix.EPOLLPRI != 0 {
		r |= Urgent
	}
	if e&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		r |= HangUp | Readable
		if e&unix.EPOLLERR != 0 {
			r |= Failed
		}
		if e&(unix.EPOLLHUP|unix.EPOLLERR) != 0 {
			r |= Writable
		}
	}
	return r
}

// poll fetches the events that are ready now.
func (p *epoll) poll(buf []unix.EpollEvent) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(buf))), uintptr(len(buf)), 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

// sleep waits for events for up to timeout.
func (p *epoll) sleep(buf []unix.EpollEvent, timeout time.Duration) (int, syscall.Errno) {
	if !p.noPwait2 {
		var ts *timespec64
		if timeout >= 0 {
			ts = &timespec64{int64(timeout / time.Second), int64(timeout % time.Second)}
		}
		n, _, errno := syscall.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(p.fd),
			uintptr(unsafe.Pointer(unsafe.SliceData(buf))), uintptr(len(buf)), uintptr(unsafe.Pointer(ts)), 0, 0)
		switch errno {
		case 0:
			return int(n), 0
		case unix.ENOSYS, unix.EPERM: // an old kernel, or a seccomp filter older than the call
			p.noPwait2 = true
		default:
			return 0, errno
		}
	}
	n, _, errno := syscall.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(buf))), uintptr(len(buf)), uintptr(millis(timeout)), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

// timespec64 is the timeout of epoll_pwait2 on every architecture. unix.Timespec is
// smaller on 32-bit architectures.
type timespec64 struct{ sec, nsec int64 }

func (p *epoll) Wake() { p.waker.wake() }

// Share returns the descriptor of the epoll instance, for other code to poll it as well: the
// loops of the Python package do that from C. An event that was fetched there does not reach
// Wait. So every watch but the waker's must be level-triggered, and Add and Modify fail with
// other modes until Unshare is called.
func (p *epoll) Share() int {
	p.shared = true
	return p.fd
}

// Unshare says that no other code polls the instance any more.
func (p *epoll) Unshare() { p.shared = false }

var errShared = errors.New("kernel: other code polls the epoll instance too, so its watches must be level-triggered")

// Woken disarms the waker, as its event does in Wait. It is for events that were fetched
// through the descriptor that Share returned.
func (p *epoll) Woken() { p.waker.reset() }

func (p *epoll) Close() error {
	p.waker.close()
	return unix.Close(p.fd)
}
