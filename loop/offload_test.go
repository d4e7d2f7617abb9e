package loop_test

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/internal/loopcore"
	"github.com/spindleloop/spindle/loop"
)

func TestOffloadDeliversOnTheLoop(t *testing.T) {
	l := newLoop(t, loop.Options{})
	failure := errors.New("no luck")
	_, err := loop.Offload(l, func() (string, error) { return "result", failure }, func(s string, err error) {
		if s != "result" || err != failure {
			t.Errorf("got %q, %v", s, err)
		}
		l.CallSoon(l.Stop) // would panic elsewhere than on the loop
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, l)
	if s := l.Stats(); s.Jobs != 0 || s.JobsDone != 1 {
		t.Errorf("%d jobs left, %d done", s.Jobs, s.JobsDone)
	}
}

func TestOffloadKeepsItsLimit(t *testing.T) {
	const limit, jobs = 3, 50
	l := newLoop(t, loop.Options{Workers: limit})
	var now, most atomic.Int32
	left := jobs
	for range jobs {
		if _, err := loop.Offload(l, func() (int, error) {
			n := now.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			runtime.Gosched()
			now.Add(-1)
			return 0, nil
		}, func(int, error) {
			if left--; left == 0 {
				l.Stop()
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	run(t, l)
	if m := most.Load(); m > limit {
		t.Fatalf("%d workers at once, limit %d", m, limit)
	}
}

func TestOffloadedPanicComesBack(t *testing.T) {
	l := newLoop(t, loop.Options{Workers: 1})
	for _, work := range []struct {
		fn    func()
		value any
		frame string
	}{{explode, "boom", "explode"}, {vanish, loop.ErrGoexit, "vanish"}} {
		loop.Offload(l, func() (int, error) { work.fn(); return 1, nil }, func(n int, err error) {
			checkCaught(t, err, work.value, work.frame)
			l.Stop()
		})
		run(t, l)
	}
	// The only worker was ended by the Goexit: another must have replaced it.
	loop.Offload(l, func() (int, error) { return 7, nil }, func(n int, err error) {
		if n != 7 || err != nil {
			t.Errorf("got %d, %v", n, err)
		}
		l.Stop()
	})
	run(t, l)
}

func TestOffloadCancelAndBusy(t *testing.T) {
	l := newLoop(t, loop.Options{Workers: 1, MaxOffloads: 1})
	begun, release := make(chan struct{}), make(chan struct{})
	blocked := func() (int, error) { close(begun); <-release; return 0, nil }
	never := func() (int, error) { t.Error("a cancelled job ran"); return 0, nil }
	running, err := loop.Offload(l, blocked, func(int, error) { l.Stop() })
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	waiting, err := loop.Offload(l, never, func(int, error) { t.Error("done of a cancelled job") })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := loop.Offload(l, never, func(int, error) {}); err != loop.ErrBusy {
		t.Errorf("one job too many: %v", err)
	}
	if running.Cancel() {
		t.Error("cancelled a job that had begun")
	}
	if !waiting.Cancel() || waiting.Cancel() {
		t.Error("cancel of a waiting job: want true, then false")
	}
	close(release)
	run(t, l)
}

// TestCloseCountsEachLossOnce: what was cancelled is no loss, and a job whose
// result is on its way is one job, not also a callback.
func TestCloseCountsEachLossOnce(t *testing.T) {
	l := newLoop(t, loop.Options{})
	l.CallSoon(func() {}).Cancel()
	if err := l.Close(); err != nil {
		t.Errorf("cancelled callback: %v", err)
	}
	l = newLoop(t, loop.Options{})
	if _, err := loop.Offload(l, func() (int, error) { return 0, nil }, func(int, error) {}); err != nil {
		t.Fatal(err)
	}
	for n := 0; n == 0; { // the result has arrived, and is not run
		var err error
		if n, err = l.Poll(-1); err != nil {
			t.Fatal(err)
		}
	}
	var lost *loop.LostError
	if err := l.Close(); !errors.As(err, &lost) || lost.Callbacks != 0 || lost.Jobs != 1 {
		t.Errorf("job on its way: %+v", lost)
	}
}

// TestCloseDropsJobsThatNeedNotEnd, wherever they are: on their way, at work, waiting.
func TestCloseDropsJobsThatNeedNotEnd(t *testing.T) {
	l := newLoop(t, loop.Options{Workers: 1})
	begun, release, finished := make(chan struct{}), make(chan struct{}), make(chan struct{})
	never := func(int, error) { t.Error("delivered after Close") }
	offload := func(work func()) loopcore.Job {
		job, err := loopcore.Offload(l.Internal(), loopcore.DropAtClose, func() (int, error) { work(); return 0, nil }, never)
		if err != nil {
			t.Fatal(err)
		}
		return job
	}
	offload(func() {})
	offload(func() {
		close(begun)
		<-release
		close(finished)
	})
	offload(func() { t.Error("begun after Close") })
	if !offload(func() {}).Cancel() {
		t.Error("a waiting job could not be taken back")
	}
	<-begun
	if _, err := loop.Offload(l, func() (int, error) { return 0, nil }, never); err != nil {
		t.Fatal(err)
	}
	var lost *loop.LostError
	if err := l.Close(); !errors.As(err, &lost) || lost.Jobs != 1 || lost.Callbacks != 0 {
		t.Errorf("close: %v", err)
	}
	close(release)
	<-finished
}

func TestCloseTellsOfUnfinishedJobs(t *testing.T) {
	l := newLoop(t, loop.Options{})
	begun, release, finished := make(chan struct{}), make(chan struct{}), make(chan struct{})
	loop.Offload(l, func() (int, error) {
		close(begun)
		<-release
		close(finished)
		return 0, nil
	}, func(int, error) { t.Error("delivered after Close") })
	<-begun
	var lost *loop.LostError
	if err := l.Close(); !errors.As(err, &lost) || lost.Jobs != 1 {
		t.Fatalf("close: %v", err)
	}
	close(release)
	<-finished
}

// TestCancelledJobsMakeRoom: a worker that hangs must not fill the queue with
// jobs that were taken back.
func TestCancelledJobsMakeRoom(t *testing.T) {
	l := newLoop(t, loop.Options{Workers: 1, MaxOffloads: 1})
	begun, release := make(chan struct{}), make(chan struct{})
	if _, err := loop.Offload(l, func() (int, error) { close(begun); <-release; return 0, nil }, func(int, error) { l.Stop() }); err != nil {
		t.Fatal(err)
	}
	<-begun
	for range 10 {
		job, err := loop.Offload(l, func() (int, error) { return 0, nil }, func(int, error) {})
		if err != nil || !job.Cancel() {
			t.Fatalf("refused: %v", err)
		}
	}
	close(release)
	run(t, l)
}

// TestJobThatStaysLockedEndsItsWorker: the next job is not on that thread, whatever state
// it was left in.
func TestJobThatStaysLockedEndsItsWorker(t *testing.T) {
	l := newLoop(t, loop.Options{Workers: 1})
	lock := func() (bool, error) {
		before := *goid.LockWord(goid.Current()) != 0
		runtime.LockOSThread()
		return before, nil
	}
	done := 0
	for range 3 {
		_, err := loop.Offload(l, lock, func(before bool, err error) {
			if before || err != nil {
				t.Errorf("a worker was locked: %v, %v", before, err)
			}
			if done++; done == 3 {
				l.Stop()
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	run(t, l)
}
