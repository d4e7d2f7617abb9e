package spindle_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/sim"
)

// after is a function that sleeps for d and returns v.
func after[T any](d time.Duration, v T, err error) func(context.Context) (T, error) {
	return func(ctx context.Context) (T, error) {
		if err := spindle.Sleep(ctx, d); err != nil {
			var zero T
			return zero, err
		}
		return v, err
	}
}

func TestGather(t *testing.T) {
	boom := errors.New("boom")
	sim.Test(t, func(ctx context.Context) error {
		got, err := spindle.Gather(ctx, after(3*time.Second, 1, nil), after(time.Second, 2, nil), after(2*time.Second, 3, nil))
		if err != nil || !slices.Equal(got, []int{1, 2, 3}) || spindle.LoopOf(ctx).Time() != 3*time.Second {
			t.Errorf("%v, %v at %v", got, err, spindle.LoopOf(ctx).Time())
		}
		var other error
		_, err = spindle.Gather(ctx, after(time.Second, 0, boom), func(ctx context.Context) (int, error) {
			other = forever(ctx)
			return 0, other
		})
		if err != boom || !errors.Is(other, context.Canceled) {
			t.Errorf("%v, other %v", err, other)
		}
		all, err := spindle.GatherAll(ctx, after(time.Second, 7, boom), after(time.Hour, 8, nil))
		if err != nil || all[0].Err != boom || all[1].Value != 8 || all[1].Err != nil {
			t.Errorf("%v, %v", all, err)
		}
		// Cancelled from outside, it cancels its children.
		other = nil
		expired, err := spindle.MoveOnAfter(ctx, time.Second, func(ctx context.Context) error {
			_, err := spindle.Gather(ctx, func(ctx context.Context) (int, error) { other = forever(ctx); return 0, other })
			return err
		})
		if !expired || err != nil || other == nil {
			t.Errorf("expired %v, %v, child %v", expired, err, other)
		}
		return nil
	})
}

func TestWaitLeavesTheOthersRunning(t *testing.T) {
	boom := errors.New("boom")
	err := nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
		a := spindle.Spawn(n, after(time.Second, "a", nil))
		b := spindle.Spawn(n, after(2*time.Second, "b", boom))
		c := spindle.Spawn(n, after(3*time.Second, "c", nil))
		for _, want := range []struct {
			until spindle.Until
			done  int
			at    time.Duration
		}{{spindle.FirstDone, 1, 1}, {spindle.FirstFailure, 2, 2}, {spindle.AllDone, 3, 3}} {
			done, pending, err := spindle.Wait(ctx, want.until, a, b, c)
			if err != nil || len(done) != want.done || len(pending) != 3-want.done || spindle.LoopOf(ctx).Time() != want.at*time.Second {
				t.Errorf("until %d: %d done, %d pending, %v at %v", want.until, len(done), len(pending), err, spindle.LoopOf(ctx).Time())
			}
		}
		if v, err := c.Await(ctx); v != "c" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err) // a spawned task's failure is its future's
	}
}

func TestAsCompleted(t *testing.T) {
	err := nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
		var futures []spindle.Awaitable
		for _, d := range []time.Duration{3, 1, 2} {
			futures = append(futures, spindle.Spawn(n, after(d*time.Second, d, nil)))
		}
		order := ""
		for f, err := range spindle.AsCompleted(ctx, futures...) {
			if err != nil {
				return err
			}
			v, _ := f.(*spindle.Future[time.Duration]).Result()
			order += fmt.Sprint(int(v))
		}
		if order != "123" {
			t.Errorf("order %q", order)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestResultAndTimeOutInOneTurn has both come at the same moment of virtual
// time: the result is not lost.
func TestResultAndTimeOutInOneTurn(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		f := spindle.NewFuture[int](ctx)
		spindle.LoopOf(ctx).CallLater(time.Second, func() { f.Resolve(7) })
		got := 0
		expired, err := spindle.MoveOnAfter(ctx, time.Second, func(ctx context.Context) (err error) {
			got, err = f.Await(ctx)
			return err
		})
		if got != 7 || expired || err != nil {
			t.Errorf("got %d, expired %v, %v", got, expired, err)
		}
		return nil
	})
}

func TestFutureThenCancelResult(t *testing.T) {
	err := nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
		f := spindle.Spawn(n, func(ctx context.Context) (int, error) { return 1, forever(ctx) })
		if _, err := f.Result(); err != spindle.ErrNotDone || f.Done() {
			t.Errorf("early result: %v", err)
		}
		told := 0
		f.Then(func() { told++ })
		if err := spindle.Yield(ctx); err != nil {
			return err
		}
		f.Cancel()
		if _, err := f.Await(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		f.Then(func() { told++ })
		if err := spindle.Yield(ctx); err != nil || told != 2 {
			t.Errorf("told %d, %v", told, err)
		}
		p := spindle.NewFuture[int](ctx)
		if !p.Resolve(1) || p.Resolve(2) || p.Reject(nil) {
			t.Error("a future was completed twice")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCirclesAreNamed(t *testing.T) {
	err := nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
		var a, b *spindle.Future[int]
		var self *spindle.Future[int]
		self = spindle.Spawn(n, func(ctx context.Context) (int, error) { return self.Await(ctx) })
		a = spindle.Spawn(n, func(ctx context.Context) (int, error) { return b.Await(ctx) })
		b = spindle.Spawn(n, func(ctx context.Context) (int, error) { return a.Await(ctx) })
		var circle *spindle.CircleError
		if _, err := self.Await(ctx); !errors.As(err, &circle) || len(circle.Tasks) != 2 {
			t.Errorf("self: %v", err)
		}
		if _, err := a.Await(ctx); !errors.As(err, &circle) || len(circle.Tasks) != 3 || !strings.Contains(err.Error(), "→") {
			t.Errorf("circle: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestMisuseIsNamed(t *testing.T) {
	want := func(words string, fn func()) {
		t.Helper()
		defer func() {
			if s, ok := recover().(string); !ok || !strings.HasPrefix(s, "spindle: ") || !strings.Contains(s, words) {
				t.Errorf("panic %q, want one about %q", s, words)
			}
		}()
		fn()
	}
	want("does not come from a task", func() { spindle.Sleep(context.Background(), 1) })
	sim.Test(t, func(ctx context.Context) error {
		done := make(chan struct{})
		go func() {
			defer close(done)
			want("not the running task", func() { spindle.Sleep(ctx, time.Second) })
		}()
		<-done
		next, stop := iter.Pull(func(yield func(int) bool) {
			want("iter.Pull", func() { spindle.Yield(ctx) })
			yield(1)
		})
		defer stop()
		next()
		var ended *spindle.Nursery
		if err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error { ended = n; return nil }); err != nil {
			return err
		}
		want("has ended", func() { ended.Go(forever) })
		want("nil function", func() { spindle.RootNursery(ctx).Go(nil) })
		want("nil function", func() { spindle.Spawn[int](spindle.RootNursery(ctx), nil) })
		return spindle.Yield(ctx) // unharmed
	})
}

func TestBlocking(t *testing.T) {
	boom := errors.New("boom")
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		if n, err := spindle.Blocking(ctx, func() (int, error) { return 7, boom }); n != 7 || err != boom {
			t.Errorf("%d, %v", n, err)
		}
		func() {
			defer func() {
				if p, ok := recover().(*spindle.PanicError); !ok || p.Value != "boom" || !bytes.Contains(p.Stack, []byte("future_test")) {
					t.Errorf("panic %v", p)
				}
			}()
			spindle.Blocking(ctx, func() (int, error) { panic("boom") })
		}()
		// Cancelled: Blocking waits for the end of work, Abandon does not.
		var ended atomic.Bool
		release := make(chan struct{})
		expired, err := spindle.MoveOnAfter(ctx, time.Millisecond, func(ctx context.Context) error {
			_, err := spindle.Abandon(ctx, func() (int, error) { <-release; ended.Store(true); return 0, nil })
			return err
		})
		if !expired || err != nil || ended.Load() {
			t.Errorf("expired %v, %v, ended %v", expired, err, ended.Load())
		}
		close(release)
		got := 0
		err = spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) (err error) {
			l, canceled := spindle.LoopOf(ctx), ctx.Done()
			got, err = spindle.Blocking(ctx, func() (int, error) {
				err := l.Post(func() { s.Cancel(nil) })
				<-canceled
				return 9, err
			})
			return err
		})
		if got != 9 || err != nil {
			t.Errorf("a result after cancellation was lost: %d, %v", got, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFromGoroutine(t *testing.T) {
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		l := spindle.LoopOf(ctx)
		state := 41
		n, err := spindle.Blocking(ctx, func() (int, error) {
			return spindle.FromGoroutine(context.Background(), l, func() (int, error) { state++; return state, nil })
		})
		if n != 42 {
			t.Errorf("got %d", n)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestWaitReadable(t *testing.T) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fds[0])
	defer syscall.Close(fds[1])
	err = spindle.Run(t.Context(), func(ctx context.Context) error {
		expired, err := spindle.MoveOnAfter(ctx, time.Millisecond, func(ctx context.Context) error { return spindle.WaitReadable(ctx, fds[0]) })
		if !expired || err != nil {
			t.Errorf("expired %v, %v", expired, err)
		}
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error { return spindle.WaitReadable(ctx, fds[0]) })
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
			if err := spindle.WaitReadable(ctx, fds[0]); !errors.Is(err, loop.ErrExists) {
				t.Errorf("second reader: %v", err)
			}
			if err := spindle.WaitWritable(ctx, fds[1]); err != nil {
				return err
			}
			_, err := syscall.Write(fds[1], []byte("x"))
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestTree(t *testing.T) {
	err := nurse(t, func(ctx context.Context, n *spindle.Nursery) error {
		n.GoWith(spindle.TaskOptions{Name: "child"}, forever)
		if err := spindle.Sleep(ctx, time.Minute); err != nil {
			return err
		}
		tree := spindle.TreeOf(ctx)
		if len(tree) != 2 || tree[0].Name != "main" || tree[0].State != "running" || tree[1].Depth != 1 ||
			tree[1].WaitsFor != "Sleep" || tree[1].For != time.Minute || !strings.Contains(tree.String(), "  child") {
			t.Errorf("tree:\n%v", tree)
		}
		return errors.New("enough")
	})
	if err == nil || err.Error() != "enough" {
		t.Fatal(err)
	}
}

// TestThenCanBeStopped before there is a result, and also after, as long as the function
// was not called.
func TestThenCanBeStopped(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		f := spindle.NewFuture[int](ctx)
		var called []int
		var stops []func() bool
		for i := range 5 {
			stops = append(stops, f.Then(func() { called = append(called, i) }))
		}
		for _, i := range []int{0, 2} { // the first, and one in between
			if !stops[i]() || stops[i]() {
				t.Errorf("stop of function %d", i)
			}
		}
		f.Resolve(1)
		late := f.Then(func() { called = append(called, 5) })
		if !stops[4]() || !late() || late() {
			t.Error("stop of functions that are to be called")
		}
		if err := spindle.Yield(ctx); err != nil {
			return err
		}
		if !slices.Equal(called, []int{1, 3}) {
			t.Errorf("called: %v", called)
		}
		if stops[1]() {
			t.Error("stop of a function that was called")
		}
		return nil
	})
}

// TestWaitsLeaveNothingBehind: in a future that is waited for again and again.
func TestWaitsLeaveNothingBehind(t *testing.T) {
	sim.Test(t, func(ctx context.Context) error {
		slow := spindle.NewFuture[int](ctx)
		for range 3 {
			quick := spindle.NewFuture[int](ctx)
			spindle.LoopOf(ctx).CallSoon(func() { quick.Resolve(1) })
			if _, _, err := spindle.Wait(ctx, spindle.FirstDone, slow, quick); err != nil {
				return err
			}
			again := spindle.NewFuture[int](ctx)
			again.Resolve(1)
			for range spindle.AsCompleted(ctx, slow, again) {
				break
			}
		}
		slow.Resolve(1)
		if s := spindle.LoopOf(ctx).Stats(); s.Ready != 0 {
			t.Errorf("%d callbacks are still told", s.Ready)
		}
		return nil
	})
}
