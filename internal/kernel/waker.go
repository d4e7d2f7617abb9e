//go:build linux || darwin || dragonfly || freebsd || netbsd

package kernel

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// wakeToken is the token of a poller's waker.
const wakeToken = ^Token(0)

// waker is a descriptor that makes Wait return. Any number of wakes between two
// Waits cause one write.
type waker struct {
	armed atomic.Bool // a write is pending for Wait; any goroutine

	mu     sync.Mutex // held while writing, so that close cannot free the number meanwhile
	closed bool
	r, w   int // the same descriptor where the system has eventfd
}

// wakeValue is the counter that wake adds to an eventfd. Its byte order does not
// matter: any value but zero wakes.
var wakeValue = [8]byte{0: 1}

// wake makes Wait return. It may be called from any goroutine. If the pipe is full
// (EAGAIN), Wait has something to read already.
func (w *waker) wake() {
	if !w.armed.CompareAndSwap(false, true) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.closed {
		if _, err := unix.Write(w.w, wakeValue[:]); err != unix.EINTR {
			return
		}
	}
}

// reset disarms the waker after an edge-triggered event. It leaves the content
// unread, because the next write is a new edge.
func (w *waker) reset() { w.armed.Store(false) }

// drain reads the content and disarms the waker, for level-triggered pollers. It
// reads before it disarms. In the other order, drain could read the write of a wake
// in between while armed stays set, and every later wake would be lost.
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
