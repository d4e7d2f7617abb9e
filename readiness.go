package spindle

import (
	"context"

	"github.com/spindleloop/spindle/loop"
)

// WaitReadable waits until fd is readable. One task at a time may wait for it; a
// second one, or an fd that cannot be waited for, fails with an error of Loop.Watch.
func WaitReadable(ctx context.Context, fd int) error {
	return waitFD(ctx, "WaitReadable", fd, loop.Readable)
}

// WaitWritable waits until fd is writable, like WaitReadable.
func WaitWritable(ctx context.Context, fd int) error {
	return waitFD(ctx, "WaitWritable", fd, loop.Writable)
}

func waitFD(ctx context.Context, op string, fd int, in loop.Ready) error {
	t, scope := caller(ctx, op)
	err := t.check(ctx, scope)
	if err != nil {
		return err
	}
	w, l := t.waits(), scope.s.l
	var ab Aborter
	if in == loop.Readable {
		if w.read == nil {
			w.read = func() { w.loop().RemoveReader(int(w.fd)); w.t.wake(nil) }
		}
		ab, err = (*readWait)(w), l.AddReader(fd, w.read)
	} else {
		if w.write == nil {
			w.write = func() { w.loop().RemoveWriter(int(w.fd)); w.t.wake(nil) }
		}
		ab, err = (*writeWait)(w), l.AddWriter(fd, w.write)
	}
	if err != nil {
		return err
	}
	w.fd = int32(fd)
	return Waker(t.co.NextWaker()).Park(ctx, op, ab)
}

type readWait waits

func (w *readWait) Abort() bool { return (*waits)(w).loop().RemoveReader(int(w.fd)) }

type writeWait waits

func (w *writeWait) Abort() bool { return (*waits)(w).loop().RemoveWriter(int(w.fd)) }
