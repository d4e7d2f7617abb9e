package spindle

import (
	"context"
	"time"

	"github.com/spindleloop/spindle/loop"
)

// Sleep waits for d, and never less. A d of zero or below only lets the others
// run.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return Yield(ctx)
	}
	w, err := NewWaker(ctx)
	if err != nil {
		return err
	}
	w.c.timer = w.c.s.l.CallLater(d, w.c.alarm())
	return w.Park(ctx, "Sleep", (*sleeping)(w.c))
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
	w.c.timer = w.c.s.l.CallAt(when, w.c.alarm())
	return w.Park(ctx, op, (*sleeping)(w.c))
}

// sleeping ends with the task's timer.
type sleeping coro

func (s *sleeping) Abort() bool { return s.timer.Cancel() }

// Yield lets everything that is ready run before it returns.
func Yield(ctx context.Context) error {
	w, err := NewWaker(ctx)
	if err != nil {
		return err
	}
	t := w.c.task
	t.queue()
	t.rest()
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
func timeOf(l *loop.Loop, at time.Duration) time.Time { return l.Kernel().At(at) }

// sinceStart returns what the loop's clock shows at a time. It is the inverse of timeOf.
func sinceStart(l *loop.Loop, when time.Time) time.Duration { return when.Sub(l.Kernel().At(0)) }

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
		panic(foreign("LoopOf"))
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
	c, r, l := t.co, t.co.seldom(), scope.s.l
	var ab Aborter
	if in == loop.Read {
		if r.read == nil {
			r.read = func() { c.s.l.RemoveReader(int(c.fd)); c.task.wake(nil) }
		}
		ab, err = (*readWait)(c), l.AddReader(fd, r.read)
	} else {
		if r.write == nil {
			r.write = func() { c.s.l.RemoveWriter(int(c.fd)); c.task.wake(nil) }
		}
		ab, err = (*writeWait)(c), l.AddWriter(fd, r.write)
	}
	if err != nil {
		return err
	}
	c.fd = int32(fd)
	return t.wait(ctx, op, ab)
}

type readWait coro

func (w *readWait) Abort() bool { return w.s.l.RemoveReader(int(w.fd)) }

type writeWait coro

func (w *writeWait) Abort() bool { return w.s.l.RemoveWriter(int(w.fd)) }
