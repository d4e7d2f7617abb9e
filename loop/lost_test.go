package loop_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spindleloop/spindle/internal/loopcore"
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

// TestLostErrorNamesFunctions: each by name, file and line, wherever it waits, with
// how often; a job whether or not it has begun.
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
	l.Internal().Post(loopcore.ReportAtClose, tick)
	g.Go(byGroup)
	begun, release := make(chan bool), make(chan bool)
	defer close(release)
	loop.Offload(l, func() (int, error) { begun <- true; <-release; return 0, nil }, func(int, error) {})
	loop.Offload(l, reckon, func(int, error) {})
	<-begun
	lost := lostBy(t, l)
	var names []string
	for _, w := range lost.Work {
		if at := strings.HasSuffix(w.File, "lost_test.go") && w.Line > 20; at == strings.Contains(w.Function, "strike") {
			t.Errorf("%s is at %q:%d", w.Function, w.File, w.Line)
		}
		name := w.Function[strings.LastIndex(w.Function, "/")+1:]
		names = append(names, fmt.Sprintf("%s %d %v", name, w.Times, w.Job))
	}
	if want := []string{
		"loop_test.tick 3 false", "loop_test.(*clock).strike 1 false", "loop_test.byGroup 1 false",
		"loop_test.tock 1 false",
		"loop_test.TestLostErrorNamesFunctions.func1 1 true", "loop_test.reckon 1 true",
	}; lost.Callbacks != 6 || lost.Jobs != 2 || !slices.Equal(names, want) {
		t.Errorf("%d callbacks, %d jobs, named %q", lost.Callbacks, lost.Jobs, names)
	}
	for _, want := range []string{"\n- callback loop_test.tick (lost_test.go:", "), 3 times", "\n- job loop_test.reckon (lost_test.go:"} {
		if text := lost.Error(); !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
}

// TestLostErrorIsBounded: it names so many functions and no more, and counts all.
func TestLostErrorIsBounded(t *testing.T) {
	l := newLoop(t, loop.Options{})
	for range 10_000 {
		l.CallSoon(tick)
	}
	if lost := lostBy(t, l); len(lost.Work) != 1 || lost.Work[0].Times != 10_000 {
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

// TestJobsThatFinishDuringClose: a job is delivered before Close, or it is lost,
// and never neither.
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

// TestResultsThatWereNotDeliveredAreLostJobs, by the name of the work.
func TestResultsThatWereNotDeliveredAreLostJobs(t *testing.T) {
	l := newLoop(t, loop.Options{})
	loop.Offload(l, reckonLater, func(int, error) {})
	for n := 0; n == 0; { // the result has arrived, and is not run
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

// TestCallbacksThatMustRun: Close runs them, in order, while the loop can be used,
// with those that they schedule in turn, and goes on if one panics.
func TestCallbacksThatMustRun(t *testing.T) {
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
	l.Internal().CallSoon(loopcore.RunAtClose, note("first"))
	l.Internal().CallSoon(loopcore.DropAtClose, note("dropped"))
	l.Internal().CallSoon(loopcore.RunAtClose, func() {
		l.Internal().CallSoon(loopcore.RunAtClose, note("last"))
		l.Internal().Post(loopcore.RunAtClose, note("posted last"))
		panic(boom)
	})
	l.Internal().Post(loopcore.RunAtClose, note("posted"))
	l.Internal().Post(loopcore.DropAtClose, note("dropped"))
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

// TestPostsRunInOrderWhateverCloseWouldDo: by the loop, the three kinds are one
// queue.
func TestPostsRunInOrderWhateverCloseWouldDo(t *testing.T) {
	l := newLoop(t, loop.Options{})
	var ran []int
	for i := range 300 {
		l.Internal().Post(loopcore.AtClose(i%3), func() { ran = append(ran, i) })
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
