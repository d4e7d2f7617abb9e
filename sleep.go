package spindle

import (
	"context"
	"time"

	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/loop"
)

// Sleep waits for at least d. If d is not positive, it only lets other tasks run.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return Yield(ctx)
	}
	w, err := NewWaker(ctx)
	if err != nil {
		return err
	}
	waits := w.task().extra()
	waits.timer = w.Loop().CallLater(d, waits.alarm())
	return w.Park(ctx, "Sleep", (*sleeping)(waits))
}

// SleepUntil waits until when; see Now. It returns at once if that has passed.
func SleepUntil(ctx context.Context, when time.Time) error {
	return sleepUntil(ctx, "SleepUntil", sinceStart(LoopOf(ctx), when))
}

// sleepUntil waits until the loop's clock has reached when.
func sleepUntil(ctx context.Context, op string, when time.Duration) error {
	w, err := NewWaker(ctx)
	if err != nil {
		return err
	}
	waits := w.task().extra()
	waits.timer = w.Loop().CallAt(when, waits.alarm())
	return w.Park(ctx, op, (*sleeping)(waits))
}

// sleeping aborts a sleep by cancelling the task's timer.
type sleeping waits

func (s *sleeping) Abort() bool { return s.timer.Cancel() }

// Yield lets everything run that is ready, and then returns.
func Yield(ctx context.Context) error {
	w, err := NewWaker(ctx)
	if err != nil {
		return err
	}
	coro.Waker(w).Coro().Yield()
	return nil
}

// Now returns the current time of the loop that ctx belongs to. On a real system that is
// the time at which the loop was made, plus the time that has passed since by a clock
// that is never set. In a simulated run it is the simulated time.
func Now(ctx context.Context) time.Time {
	l := LoopOf(ctx)
	return timeOf(l, l.Time())
}

// timeOf returns the time at which the loop's clock shows at.
func timeOf(l *loop.Loop, at time.Duration) time.Time { return l.Internal().Kernel().At(at) }

// sinceStart returns what the loop's clock shows at a time. It is the inverse of timeOf.
func sinceStart(l *loop.Loop, when time.Time) time.Duration {
	return when.Sub(l.Internal().Kernel().At(0))
}

// LoopOf returns the loop that ctx belongs to.
func LoopOf(ctx context.Context) *loop.Loop {
	if sc, ok := ctx.(*Scope); ok {
		return sc.s.l
	}
	return loopOf(ctx)
}

func loopOf(ctx context.Context) *loop.Loop {
	scope := scopeOf(ctx)
	if scope == nil {
		panic(notInTask("LoopOf"))
	}
	return scope.s.l
}

// WaitReadable waits until fd is readable. One task at a time may wait for it; a
// second one, or an fd that cannot be waited for, fails with a *loop.OpError.
func WaitReadable(ctx context.Context, fd int) error {
	return waitFD(ctx, "WaitReadable", fd, loop.Read)
}

// WaitWritable waits until fd is writable, like WaitReadable.
func WaitWritable(ctx context.Context, fd int) error {
	return waitFD(ctx, "WaitWritable", fd, loop.Write)
}

func waitFD(ctx context.Context, op string, fd int, in loop.Interest) error {
	t, scope := caller(ctx, op)
	err := t.check(ctx, scope)
	if err != nil {
		return err
	}
	w, l := t.extra(), scope.s.l
	var ab Aborter
	if in == loop.Read {
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
