package pyapp

import (
	"context"
	"math"
	"os"
	"sync"
	"syscall"

	"github.com/spindleloop/spindle/cosync"
)

// outlet writes frames to a process, in the order in which they come. A goroutine or task that
// sends a small frame writes it itself if no other frame waits, because waking another goroutine takes longer
// than the write. Other frames wait for the goroutine that runs write. Any goroutine.
type outlet struct {
	raw     syscall.RawConn
	waiting *cosync.Inbox[frame]
	late    *cosync.Inbox[frame] // small frames that wait for a place in waiting

	mu     sync.Mutex // held while a frame is written that does not wait
	unsent int        // frames that wait, or will, or are being written by write; guarded by mu
}

func newOutlet(input *os.File) *outlet {
	raw, err := input.SyscallConn()
	if err != nil {
		panic("pyapp: " + err.Error()) // it is open
	}
	return &outlet{raw: raw, waiting: cosync.NewInbox[frame](64), late: cosync.NewInbox[frame](math.MaxInt)}
}

// put sends a frame. It waits while too many wait, and fails with cosync.ErrClosed if the process ends.
func (o *outlet) put(ctx context.Context, f frame) error {
	if o.putAtOnce(f) {
		return nil
	}
	err := o.waiting.Put(ctx, f)
	if err != nil {
		o.sent(1)
	}
	return err
}

// post sends a small frame without waiting. If too many frames wait, it stays behind them: a
// cancellation must not overtake its call. Later frames may overtake it then, which does no harm: a
// cancellation is the last frame of its call, and the number of a call is not used again; a credit is a
// total, and the worker keeps the largest; and the frames that end the worker are sent when no call
// runs, or end all calls.
func (o *outlet) post(f frame) {
	if !o.putAtOnce(f) && o.waiting.TryPut(f) == cosync.ErrWouldBlock {
		_ = o.late.TryPut(f) // it always fits
	}
}

// putAtOnce writes a frame if no other one waits. If the pipe is full, the rest is the first that waits. It reports false if
// the frame has to wait, and counts it.
func (o *outlet) putAtOnce(f frame) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.unsent > 0 || f.body != nil || f.accepted != nil {
		o.unsent++
		return false
	}
	n := 0
	_ = o.raw.Write(func(fd uintptr) bool { // fails if the process has ended, as its output tells
		n, _ = syscall.Write(int(fd), f.head)
		return true
	})
	if n = max(n, 0); n < len(f.head) {
		f.head = f.head[n:]
		o.unsent++
		_ = o.waiting.TryPut(f) // it fits, unless the process ends
	}
	return true
}

// sent notes that n frames do not wait any more.
func (o *outlet) sent(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unsent -= n
}

// write writes the frames that wait, small ones together, until close.
// Pass passes a connection to the process before its frame; if it reports false, the frame is dropped.
func (o *outlet) write(pass func(*accepted) bool) {
	const atOnce = 256 << 10
	var small []byte
	for f, err := range o.waiting.All(context.Background()) {
		n := 0
		for err == nil {
			if f.accepted != nil {
				if !o.flush(&small) { // the process takes earlier connections when it has their frames
					return
				}
				if !pass(f.accepted) {
					f = frame{}
				}
			}
			small = append(small, f.head...)
			if len(f.body) >= large {
				if !o.flush(&small) || !o.flush(&f.body) {
					return
				}
			} else {
				small = append(small, f.body...)
			}
			if n++; len(small) >= atOnce {
				break
			}
			f, err = o.waiting.TryGet()
		}
		if !o.flush(&small) {
			return
		}
		o.sent(n)
	}
}

// flush writes b and empties it. It waits while the pipe is full, and reports false if the process ends.
func (o *outlet) flush(b *[]byte) bool {
	rest := *b
	*b = rest[:0]
	var failed error
	closed := o.raw.Write(func(fd uintptr) bool {
		for len(rest) > 0 {
			n, err := syscall.Write(int(fd), rest)
			switch err {
			case nil:
				rest = rest[n:]
			case syscall.EAGAIN:
				return false
			case syscall.EINTR:
			default:
				failed = err
				return true
			}
		}
		return true
	})
	return closed == nil && failed == nil
}

// writeLate passes the frames of late on, until close.
func (o *outlet) writeLate() {
	for f := range o.late.All(context.Background()) {
		if o.waiting.Put(context.Background(), f) != nil {
			return
		}
	}
}

// close makes every later frame fail, and ends write, if the pipe is closed too.
func (o *outlet) close() {
	o.waiting.Close()
	o.late.Close()
}
