package pyapp

import (
	"encoding/binary"
	"io"
	"sync"
)

// framesTo passes the frames of a WebSocket client on to a worker, and can end them with a
// Close that the client did not send. The worker answers it, and the client gets the answer.
// So app and client learn that the server goes away, and neither has to be interrupted in
// the middle of a frame. Any goroutine.
type framesTo struct {
	w io.Writer

	mu     sync.Mutex
	frame  frameEnd // guarded by mu
	leaves bool     // a Close follows the frame that is under way; guarded by mu
	closed bool     // the Close was written; guarded by mu
}

// goingAway is a Close with 1001, with an empty mask.
var goingAway = []byte{0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe9}

// goAway writes the Close, now or after the frame that is under way.
func (f *framesTo) goAway() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leaves = true
	_ = f.writeClose() // the tunnel ends if it fails
}

func (f *framesTo) writeClose() error {
	if !f.leaves || f.closed || !f.frame.between() {
		return nil
	}
	f.closed = true
	_, err := f.w.Write(goingAway)
	return err
}

// Write passes p on. After the Close it drops p.
func (f *framesTo) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	from, to := 0, 0
	for to < len(p) && !f.closed {
		to += f.frame.skip(p[to:])
		if !f.leaves && to < len(p) {
			continue
		}
		if n, err := f.w.Write(p[from:to]); err != nil {
			return from + n, err
		}
		from = to
		if err := f.writeClose(); err != nil {
			return from, err
		}
	}
	return len(p), nil
}

// frameEnd finds the ends of frames in a stream.
type frameEnd struct {
	head [14]byte
	have int    // how much of head has come; 0 between two frames
	left uint64 // how much of the payload has not come
}

func (f *frameEnd) between() bool { return f.have == 0 }

// skip returns how many bytes of p belong to the frame that is under way, or to the next one.
func (f *frameEnd) skip(p []byte) (n int) {
	for n < len(p) && f.left == 0 {
		f.head[f.have] = p[n]
		f.have++
		n++
		if size, ok := f.payload(); ok && size == 0 {
			f.have = 0
			return n
		} else if ok {
			f.left = size
		}
	}
	some := min(f.left, uint64(len(p)-n))
	if f.left -= some; f.left == 0 && some > 0 {
		f.have = 0
	}
	return n + int(some)
}

// payload returns the length of the payload if the head has come as a whole.
func (f *frameEnd) payload() (size uint64, ok bool) {
	if f.have < 2 {
		return 0, false
	}
	size = uint64(f.head[1] & 0x7f)
	need := 2
	switch size {
	case 126:
		need += 2
		size = uint64(binary.BigEndian.Uint16(f.head[2:]))
	case 127:
		need += 8
		size = binary.BigEndian.Uint64(f.head[2:])
	}
	if f.head[1]&0x80 != 0 {
		need += 4
	}
	return size, f.have == need
}
