package loop_test

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/loop"
)

func TestOffloadDeliversOnTheLoop(t *testing.T) {
	l := newLoop(t, loop.Options{})
	failure := errors.New("no luck")
	_, err := loop.Offload(l, func() (string, error) { return "result", failure }, func(s string, err error) {
		if s != "result" || err != failure {
			t.Errorf("got %q, %v", s, err)
		}
		l.CallSoon(l.Stop) // would panic on another goroutine
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

func TestOffloadedPanicIsAnError(t *testing.T) {
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

// TestCancelledJobsDoNotCountAsWaiting: while a worker hangs, cancelled jobs do not fill
// the queue.
func TestCancelledJobsDoNotCountAsWaiting(t *testing.T) {
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

// TestJobThatStaysLockedEndsItsWorker: the next job does not run on the locked thread,
// which may be in any state.
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

// joined starts goroutines as the real kernel does, and sends when one has ended.
type joined struct{ ended chan struct{} }

func (j joined) Start(work func()) {
	go func() {
		defer func() { j.ended <- struct{}{} }()
		work()
	}()
}

// TestJobsThatHadNotBegunDoNotBeginAfterClose waits for the only worker to end.
func TestJobsThatHadNotBegunDoNotBeginAfterClose(t *testing.T) {
	k, err := kernel.Open("")
	if err != nil {
		t.Fatal(err)
	}
	workers := joined{make(chan struct{})}
	k.Workers = workers
	l := newLoop(t, loop.Internal().WithKernel(loop.Options{Workers: 1}, k))
	begun, release := make(chan struct{}), make(chan struct{})
	late := false
	none := func(int, error) {}
	loop.Offload(l, func() (int, error) { close(begun); <-release; return 0, nil }, none)
	loop.Offload(l, func() (int, error) { late = true; return 0, nil }, none)
	<-begun
	var lost *loop.LostError
	if err := l.Close(); !errors.As(err, &lost) || lost.Jobs != 2 || lost.Callbacks != 0 {
		t.Errorf("close: %v", err)
	}
	close(release)
	<-workers.ended
	if late {
		t.Error("a job began after Close")
	}
}

func TestCancelledJobIsNotLost(t *testing.T) {
	l := newLoop(t, loop.Options{Workers: 1})
	begun, release := make(chan struct{}), make(chan struct{})
	loop.Offload(l, func() (int, error) { close(begun); <-release; return 0, nil }, func(int, error) { l.Stop() })
	<-begun
	nothing := func() (int, error) { return 0, nil }
	var jobs []loop.Job
	for range 3 {
		j, _ := loop.Offload(l, nothing, func(int, error) {})
		jobs = append(jobs, j)
	}
	ran := false
	loop.Offload(l, nothing, func(int, error) { ran = true; l.Stop() })
	for _, j := range jobs {
		j.Cancel()
	}
	if s := l.Stats(); s.Jobs != 2 {
		t.Errorf("%d jobs, want 2", s.Jobs)
	}
	close(release)
	run(t, l)
	for !ran { // the one after the cancelled ones
		run(t, l)
	}
	if s := l.Stats(); s.Jobs != 0 {
		t.Errorf("%d jobs left", s.Jobs)
	}
}

func TestJobCancelFromAnotherGoroutineIsNamed(t *testing.T) {
	l := newLoop(t, loop.Options{})
	l.CallSoon(func() {
		job, err := loop.Offload(l, func() (int, error) { return 0, nil }, func(int, error) { l.Stop() })
		if err != nil {
			t.Error(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			wantPanic(t, "Job.Cancel called from a goroutine that is not the loop's", func() { job.Cancel() })
		}()
		<-done
	})
	run(t, l)
}
