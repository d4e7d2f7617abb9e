package loop_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/loopcore"
	"github.com/spindleloop/spindle/loop"
)

// TestCloseCountsWhatIsLost, wherever it waits.
func TestCloseCountsWhatIsLost(t *testing.T) {
	l := newLoop(t, loop.Options{})
	nop := func() {}
	l.CallSoon(nop)
	l.CallSoonPriority(loop.Low, nop)
	l.Post(nop)
	l.Post(nop)
	l.CallLater(0, nop) // is not lost work
	var lost *loop.LostError
	if err := l.Close(); !errors.As(err, &lost) || lost.Callbacks != 4 || lost.Jobs != 0 {
		t.Fatalf("close: %v", err)
	}
}

// joined runs work as the system does and tells when it has ended.
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
	l := newLoop(t, loop.Options{Workers: 1}.WithKernel(k))
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
	for !ran { // the one behind the cancelled ones
		run(t, l)
	}
	if s := l.Stats(); s.Jobs != 0 {
		t.Errorf("%d jobs left", s.Jobs)
	}
}

// TestTooLongADelayWaitsForEver, also once the clock has moved.
func TestTooLongADelayWaitsForEver(t *testing.T) {
	l, v := newVirtual(t, loop.Options{})
	v.now = time.Hour
	l.CallLater(math.MaxInt64, func() { t.Error("the end of time came") })
	l.CallLater(math.MaxInt64-time.Minute, func() { t.Error("the end of time came") })
	l.CallLater(time.Hour, l.Stop)
	run(t, l)
	if v.now != 2*time.Hour {
		t.Errorf("stopped at %v", v.now)
	}
}

// TestLagIsOfTheFirstAndMaxLagStays has two timers late in one batch, and then
// one in time.
func TestLagIsOfTheFirstAndMaxLagStays(t *testing.T) {
	l, v := newVirtual(t, loop.Options{})
	l.CallLater(time.Second, func() { v.now += time.Minute })
	l.CallLater(2*time.Second, func() {})
	l.CallLater(3*time.Second, l.Stop)
	run(t, l)
	if s := l.Stats(); s.Lag != 59*time.Second {
		t.Errorf("lag %v, want 59s", s.Lag)
	}
	l.CallLater(time.Second, l.Stop)
	run(t, l)
	if s := l.Stats(); s.Lag != 0 || s.MaxLag != 59*time.Second {
		t.Errorf("lag %v, most %v; want 0s, 59s", s.Lag, s.MaxLag)
	}
}

// TestTurnsAreShort: a crowd in any place gives way after 61.
func TestTurnsAreShort(t *testing.T) {
	const most, crowd = 61, 500
	nop := func() {}
	for name, add := range map[string]func(*loop.Loop){
		"timers": func(l *loop.Loop) { l.CallLater(0, nop) },
		"normal": func(l *loop.Loop) { l.CallSoon(nop) },
		"high":   func(l *loop.Loop) { l.CallSoonPriority(loop.High, nop) },
		"low":    func(l *loop.Loop) { l.CallSoonPriority(loop.Low, nop) },
		"lanes": func(l *loop.Loop) {
			for p := range loop.Low + 1 {
				l.CallSoonPriority(p, nop)
			}
		},
	} {
		l, _ := newVirtual(t, loop.Options{})
		for range crowd {
			add(l)
		}
		left := func() int { s := l.Stats(); return s.Ready + s.Timers }
		for turns := 0; left() > 0; turns++ {
			want := min(most, left())
			if turns == 0 && name == "timers" {
				want = 0 // the clock is read at the end
			}
			if n := once(t, l); n != want {
				t.Errorf("%s: %d callbacks in turn %d, want %d", name, n, turns, want)
				break
			}
		}
	}
}

// TestSharesOfTheLanes counts what a full turn runs of each.
func TestSharesOfTheLanes(t *testing.T) {
	l := newLoop(t, loop.Options{})
	var ran [3]int
	for p := range loop.Low + 1 {
		for range 100 {
			l.CallSoonPriority(p, func() { ran[p]++ })
		}
	}
	once(t, l)
	if want := [3]int{loop.Normal: 16, loop.High: 41, loop.Low: 4}; ran != want {
		t.Errorf("a turn ran %v, want %v", ran, want)
	}
}

// TestRunOnceAsksTheKernel although something is always ready.
func TestRunOnceAsksTheKernel(t *testing.T) {
	l := newLoop(t, loop.Options{})
	fds := socketpair(t)
	write(fds[1], "x")
	var again func()
	again = func() { l.CallSoon(again) }
	l.CallSoon(again)
	readable := 0
	if err := l.AddReader(fds[0], func() { readable++ }); err != nil {
		t.Fatal(err)
	}
	for turn := 1; turn <= 3; turn++ {
		if once(t, l); readable != turn {
			t.Fatalf("%d events in %d turns", readable, turn)
		}
	}
}

// TestMemoryComesBackAfterAFlood has a flood by CallSoon and one by Post, and
// then a loop that waits.
func TestMemoryComesBackAfterAFlood(t *testing.T) {
	l, _ := newVirtual(t, loop.Options{})
	nop := func() {}
	before := heap()
	for range 2 {
		for range 1 << 18 {
			l.CallSoon(nop)
			l.Post(nop)
		}
		l.Post(func() { l.CallLater(time.Second, l.Stop) })
		run(t, l)
	}
	if after := heap(); after > before+1<<20 {
		t.Errorf("%d bytes more than before", after-before)
	}
	runtime.KeepAlive(l)
}

// TestCallbacksThatRanAreFree: the loop keeps nothing of what they held.
func TestCallbacksThatRanAreFree(t *testing.T) {
	l := newLoop(t, loop.Options{})
	freed := make(chan string, 2)
	for name, schedule := range map[string]func(func()){
		"CallSoon": func(fn func()) { l.CallSoon(fn) },
		"Post":     func(fn func()) { l.Post(fn) },
	} {
		func() {
			held := new([1 << 16]byte)
			runtime.AddCleanup(held, func(name string) { freed <- name }, name)
			schedule(func() { held[0]++ })
		}()
		once(t, l)
		runtime.GC()
		if got := <-freed; got != name { // hangs if it is kept
			t.Errorf("freed %s", got)
		}
	}
	runtime.KeepAlive(l)
}

// TestHandlerThatExits: a panic whose handler does not come back ends the loop.
func TestHandlerThatExits(t *testing.T) {
	l := newLoop(t, loop.Options{OnPanic: func(*loop.PanicError) error { vanish(); return nil }})
	l.CallSoon(explode)
	l.CallSoon(l.Stop)
	checkCaught(t, l.Run(context.Background()), "boom", "explode")
	run(t, l)
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

// TestCloseDropsWhatNeedNotRun leaves callbacks in the inbox and in the lane.
func TestCloseDropsWhatNeedNotRun(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	post := func(weak, strong int) {
		for range weak {
			if err := l.Internal().Post(loopcore.DropAtClose, func() { ran++ }); err != nil {
				t.Fatal(err)
			}
		}
		for range strong {
			if err := l.Post(func() { ran++ }); err != nil {
				t.Fatal(err)
			}
		}
	}
	post(2, 1)
	if n, err := l.RunOnce(0); n != 3 || err != nil || ran != 3 {
		t.Fatalf("%d ran, %v; %d by their own count", n, err, ran)
	}
	post(2, 1)
	if n, err := l.Poll(0); n == 0 || err != nil { // into the lane
		t.Fatal(n, err)
	}
	post(2, 1)
	var lost *loop.LostError
	if err := l.Close(); !errors.As(err, &lost) || lost.Callbacks != 2 || lost.Jobs != 0 {
		t.Errorf("Close: %v", err)
	}
	if err := l.Internal().Post(loopcore.DropAtClose, func() {}); err != loop.ErrClosed {
		t.Errorf("PostWith on a closed loop: %v", err)
	}
}
