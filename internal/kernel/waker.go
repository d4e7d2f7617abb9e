//go:build linux || darwin || dragonfly || freebsd || netbsd

package kernel

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// wakeToken is the token of a poller's own waker.
const wakeToken = ^Token(0)

// waker is a descriptor that makes Wait return. Any number of wakes between
// two Waits are one write.
type waker struct {
	armed atomic.Bool // a write is on its way to Wait; any goroutine

	mu     sync.Mutex // held while writing, so that close cannot pull the number away
	closed bool
	r, w   int // the same descriptor where the system has eventfd
}

// eight is what an eventfd takes: one in either byte order will do.
var eight = [8]byte{0: 1}

// wake may be called from any goroutine. A full pipe (EAGAIN) is as good as a
// write: Wait will see it.
func (w *waker) wake() {
	if !w.armed.CompareAndSwap(false, true) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.closed {
		if _, err := unix.Write(w.w, eight[:]); err != unix.EINTR {
			return
		}
	}
}

// drained is called by Wait when it saw the waker ready edge-triggered: the
// content stays, the next write is a new edge.
func (w *waker) drained() { w.armed.Store(false) }

// drain is for level-triggered pollers. The order matters: disarm first, and a
// wake in between would have its write read away while armed stays set, and
// every later wake would be lost.
func (w *waker) drain() {
	var buf [64]byte
	for {
		n, err := unix.Read(w.r, buf[:])
		if err != unix.EINTR && n < len(buf) {
			break
		}
	}
	w.armed.Store(false)
}

func (w *waker) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.closed = true
	unix.Close(w.r)
	if w.w != w.r {
		unix.Close(w.w)
	}
}
