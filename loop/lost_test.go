package loop_test

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/onloop"
	"github.com/spindleloop/spindle/loop"
)

// lostBy closes l and returns the LostError, nil if nothing was lost.
func lostBy(t *testing.T, l *loop.Loop) *loop.LostError {
	t.Helper()
	err := l.Close()
	var lost *loop.LostError
	if err != nil && !errors.As(err, &lost) {
		t.Fatalf("Close: %v", err)
	}
	return lost
}

func tick()                     {}
func tock()                     {}
func byGroup(*loop.Loop)        {}
func reckon() (int, error)      { return 0, nil }
func reckonLater() (int, error) { return 0, nil }

type clock struct{ n int }

func (c *clock) strike() { c.n++ }

// TestLostErrorNamesFunctions: Close names each function with file, line and count,
// wherever it waits; a job whether or not it has begun.
func TestLostErrorNamesFunctions(t *testing.T) {
	g, err := loop.NewGroup(1, loop.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	l := g.Loops()[0]
	l.CallSoon(tick)
	l.CallSoonPriority(loop.Low, tock)
	l.Post(tick)
	l.Post((&clock{}).strike)
	l.Internal().Post(atclose.Report, tick)
	g.Go(byGroup)
	begun, release := make(chan bool), make(chan bool)
	defer close(release)
	loop.Offload(l, func() (int, error) { begun <- true; <-release; return 0, nil }, func(int, error) {})
	loop.Offload(l, reckon, func(int, error) {})
	<-begun
	lost := lostBy(t, l)
	line := regexp.MustCompile(` \(lost_test\.go:(\d\d+)\)`)
	var names []string
	for _, w := range lost.Work {
		if line.MatchString(w) == strings.Contains(w, "strike") {
			t.Errorf("wrong place: %s", w)
		}
		names = append(names, line.ReplaceAllString(w, ""))
	}
	if want := []string{
		"callback loop_test.tick, 3 times", "callback loop_test.(*clock).strike", "callback loop_test.byGroup",
		"callback loop_test.tock",
		"job loop_test.TestLostErrorNamesFunctions.func1", "job loop_test.reckon",
	}; lost.Callbacks != 6 || lost.Jobs != 2 || !slices.Equal(names, want) {
		t.Errorf("%d callbacks, %d jobs, named %q", lost.Callbacks, lost.Jobs, names)
	}
	for _, want := range []string{"\n- callback loop_test.tick (lost_test.go:", "), 3 times", "\n- job loop_test.reckon (lost_test.go:"} {
		if text := lost.Error(); !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
}

// TestLostErrorIsBounded: it names 16 functions at most, and counts all.
func TestLostErrorIsBounded(t *testing.T) {
	l := newLoop(t, loop.Options{})
	for range 10_000 {
		l.CallSoon(tick)
	}
	if lost := lostBy(t, l); len(lost.Work) != 1 || !strings.HasSuffix(lost.Work[0], ", 10000 times") {
		t.Errorf("%+v", lost)
	}
	l = newLoop(t, loop.Options{})
	for _, fn := range []func(){
		func() {}, func() {}, func() {}, func() {}, func() {}, func() {}, func() {}, func() {}, func() {}, func() {},
		func() {}, func() {}, func() {}, func() {}, func() {}, func() {}, func() {}, func() {}, func() {}, func() {},
	} {
		l.CallSoon(fn)
	}
	lost := lostBy(t, l)
	if lost.Callbacks != 20 || len(lost.Work) != 16 || !strings.HasSuffix(lost.Error(), "- and 4 more") {
		t.Errorf("%+v", lost)
	}
}

// TestJobsThatFinishDuringClose: each job is either delivered before Close or reported as
// lost.
func TestJobsThatFinishDuringClose(t *testing.T) {
	for i := range 1000 {
		l := newLoop(t, loop.Options{})
		const jobs = 4
		var finish sync.WaitGroup
		finish.Add(1)
		for range jobs {
			loop.Offload(l, func() (int, error) { finish.Wait(); return 0, nil }, func(int, error) {})
		}
		finish.Done()
		if lost := lostBy(t, l); lost == nil || lost.Callbacks+lost.Jobs != jobs {
			t.Fatalf("round %d: %+v", i, lost)
		}
	}
}

// TestResultsThatWereNotDeliveredAreLostJobs: Close reports them by the name of the work.
func TestResultsThatWereNotDeliveredAreLostJobs(t *testing.T) {
	l := newLoop(t, loop.Options{})
	loop.Offload(l, reckonLater, func(int, error) {})
	for n := 0; n == 0; { // the result is in the lane, and has not run
		var err error
		if n, err = l.Poll(-1); err != nil {
			t.Fatal(err)
		}
	}
	lost := lostBy(t, l)
	if lost == nil || lost.Callbacks != 0 || lost.Jobs != 1 || !strings.Contains(lost.Error(), "job loop_test.reckonLater (") {
		t.Errorf("%+v", lost)
	}
}

// TestCloseRunsCallbacks: Close runs the RunAtClose callbacks in order, while the loop can
// be used, with those that they schedule. It continues if one panics.
func TestCloseRunsCallbacks(t *testing.T) {
	l := newLoop(t, loop.Options{})
	var ran []string
	note := func(name string) func() {
		return func() {
			ran = append(ran, name)
			if !l.Owns() {
				t.Errorf("%s does not run on the loop", name)
			}
		}
	}
	boom := errors.New("boom")
	l.Internal().CallSoon(atclose.Run, note("first"))
	l.Internal().CallSoon(atclose.Drop, note("dropped"))
	l.Internal().CallSoon(atclose.Run, func() {
		l.Internal().CallSoon(atclose.Run, note("last"))
		l.Internal().Post(atclose.Run, note("posted last"))
		panic(boom)
	})
	l.Internal().Post(atclose.Run, note("posted"))
	l.Internal().Post(atclose.Drop, note("dropped"))
	l.Post(tick)
	err := l.Close()
	var lost *loop.LostError
	if !errors.Is(err, boom) || !errors.As(err, &lost) || lost.Callbacks != 1 {
		t.Errorf("Close: %v", err)
	}
	if want := []string{"first", "posted", "last", "posted last"}; !slices.Equal(ran, want) {
		t.Errorf("ran %q", ran)
	}
}

// TestPostsOfAllKindsRunInOrder: callbacks that Close would report, drop or run share one
// queue.
func TestPostsOfAllKindsRunInOrder(t *testing.T) {
	l := newLoop(t, loop.Options{})
	var ran []int
	for i := range 300 {
		l.Internal().Post(atclose.Kind(i%3), func() { ran = append(ran, i) })
	}
	l.Post(l.Stop)
	run(t, l)
	if len(ran) != 300 || !slices.IsSorted(ran) {
		t.Errorf("%d ran: %v", len(ran), ran)
	}
	if lost := lostBy(t, l); lost != nil {
		t.Errorf("%v", lost)
	}
}

// TestCloseCountsWhatIsLost: in lanes and inbox.
func TestCloseCountsWhatIsLost(t *testing.T) {
	l := newLoop(t, loop.Options{})
	nop := func() {}
	l.CallSoon(nop)
	l.CallSoonPriority(loop.Low, nop)
	l.Post(nop)
	l.Post(nop)
	l.CallLater(0, nop) // timers are not lost work
	var lost *loop.LostError
	if err := l.Close(); !errors.As(err, &lost) || lost.Callbacks != 4 || lost.Jobs != 0 {
		t.Fatalf("close: %v", err)
	}
}

// TestCloseDropsCallbacks leaves DropAtClose callbacks in the inbox and in the lane.
func TestCloseDropsCallbacks(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	post := func(dropped, reported int) {
		for range dropped {
			if err := l.Internal().Post(atclose.Drop, func() { ran++ }); err != nil {
				t.Fatal(err)
			}
		}
		for range reported {
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
	if err := l.Internal().Post(atclose.Drop, func() {}); err != loop.ErrClosed {
		t.Errorf("Post on a closed loop: %v", err)
	}
}

// TestCloseCountsEachLossOnce: cancelled callbacks are not lost. A job with its result in
// the inbox is one lost job, and not also a callback.
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
	for n := 0; n == 0; { // the result is in the lane, and has not run
		var err error
		if n, err = l.Poll(-1); err != nil {
			t.Fatal(err)
		}
	}
	var lost *loop.LostError
	if err := l.Close(); !errors.As(err, &lost) || lost.Callbacks != 0 || lost.Jobs != 1 {
		t.Errorf("job with a result: %+v", lost)
	}
}

// TestCloseDropsJobs: DropAtClose jobs that are finished, running or waiting.
func TestCloseDropsJobs(t *testing.T) {
	l := newLoop(t, loop.Options{Workers: 1})
	begun, release, finished := make(chan struct{}), make(chan struct{}), make(chan struct{})
	never := func(int, error) { t.Error("delivered after Close") }
	offload := func(work func()) loop.Job {
		job, err := onloop.Offload(l, nil, atclose.Drop, func() (int, error) { work(); return 0, nil }, never)
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
		t.Error("a waiting job could not be cancelled")
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

func TestCloseReportsUnfinishedJobs(t *testing.T) {
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

// TestDroppablePostIsNotLost: it runs like any other, and Close drops it silently.
func TestDroppablePostIsNotLost(t *testing.T) {
	l := newLoop(t, loop.Options{})
	ran := 0
	for range 2 {
		if err := l.PostDroppable(func() { ran++ }); err != nil {
			t.Fatal(err)
		}
		if ran == 0 {
			l.RunOnce(0)
		}
	}
	if lost := lostBy(t, l); lost != nil || ran != 1 {
		t.Errorf("%d ran, and Close reports %v", ran, lost)
	}
	if err := l.PostDroppable(func() {}); !errors.Is(err, loop.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
