package loop_test

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/spindleloop/spindle/loop"
)

func TestCallSoonKeepsOrder(t *testing.T) {
	l := newLoop(t, loop.Options{})
	var got []int
	for i := range 1000 {
		l.CallSoon(func() { got = append(got, i) })
	}
	l.CallSoon(l.Stop)
	run(t, l)
	if len(got) != 1000 || !slices.IsSorted(got) {
		t.Fatalf("%d ran, sorted %v", len(got), slices.IsSorted(got))
	}
}

func TestCallSoonIsNeverInsideTheCall(t *testing.T) {
	l := newLoop(t, loop.Options{})
	inside := false
	l.CallSoon(func() {
		inside = true
		l.CallSoon(func() {
			if inside {
				t.Error("ran inside the callback that scheduled it")
			}
			l.Stop()
		})
		inside = false
	})
	run(t, l)
}

func TestPrioritiesWithinATurn(t *testing.T) {
	l := newLoop(t, loop.Options{})
	order := ""
	note := func(s string) func() { return func() { order += s } }
	l.CallSoonPriority(loop.Low, note("l"))
	l.CallSoon(note("n"))
	l.CallSoonPriority(loop.High, note("h"))
	if _, err := l.RunOnce(0); err != nil || order != "hnl" {
		t.Fatalf("order %q, %v", order, err)
	}
}

// TestLowLanesMoveUnderAFlood keeps the high lane full for ever: normal and low
// work must all run, and high must still get most of the time.
func TestLowLanesMoveUnderAFlood(t *testing.T) {
	l := newLoop(t, loop.Options{})
	high, others := 0, 0
	var flood func()
	flood = func() {
		high++
		l.CallSoonPriority(loop.High, flood)
	}
	for range 200 {
		l.CallSoonPriority(loop.High, flood)
	}
	const each = 100
	for range each {
		l.CallSoon(func() { others++ })
		l.CallSoonPriority(loop.Low, func() {
			if others++; others == 2*each {
				l.Stop()
			}
		})
	}
	run(t, l)
	if high < 5*others {
		t.Fatalf("high ran %d times beside %d of the others", high, others)
	}
}

func TestSelfReschedulingStarvesNobody(t *testing.T) {
	everyBackend(t, func(t *testing.T, opts loop.Options) {
		l := newLoop(t, opts)
		var again func()
		again = func() { l.CallSoon(again) }
		for range 1000 {
			l.CallSoon(again)
		}
		var timer, readable, posted bool
		check := func() {
			if timer && readable && posted {
				l.Stop()
			}
		}
		l.CallLater(time.Millisecond, func() { timer = true; check() })
		fds := socketpair(t)
		if err := l.AddReader(fds[0], func() { readable = true; l.RemoveReader(fds[0]); check() }); err != nil {
			t.Fatal(err)
		}
		go func() {
			write(fds[1], "x")
			l.Post(func() { posted = true; check() })
		}()
		run(t, l)
	})
}

func TestFloodOfPostStarvesNobody(t *testing.T) {
	l := newLoop(t, loop.Options{})
	var stop sync.WaitGroup
	quit := make(chan struct{})
	for range 2 {
		stop.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-quit:
					return
				default:
				}
				l.Post(func() {})
				if n%1000 == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	fds := socketpair(t)
	write(fds[1], "x")
	left := 2
	done := func() {
		if left--; left == 0 {
			close(quit)
			l.Stop()
		}
	}
	l.CallLater(time.Millisecond, done)
	if err := l.AddReader(fds[0], func() { l.RemoveReader(fds[0]); done() }); err != nil {
		t.Fatal(err)
	}
	run(t, l)
	stop.Wait()
}

func TestHandleCancel(t *testing.T) {
	l := newLoop(t, loop.Options{})
	var later loop.Handle
	first := l.CallSoon(func() {
		if !later.Cancel() || later.Cancel() {
			t.Error("cancel within the batch: want true, then false")
		}
	})
	later = l.CallSoon(func() { t.Error("cancelled callback ran") })
	l.CallSoon(l.Stop)
	run(t, l)
	if first.Cancel() {
		t.Error("cancelled a callback that had run")
	}
	// The places are used again; the old handles must not reach the new ones.
	ran := 0
	for range 200 {
		l.CallSoon(func() { ran++ })
	}
	if first.Cancel() || later.Cancel() {
		t.Error("a stale handle cancelled something")
	}
	l.CallSoon(l.Stop)
	run(t, l)
	if ran != 200 {
		t.Errorf("%d of 200 ran", ran)
	}
}

func TestHandlesStayStaleAfterAFlood(t *testing.T) {
	l := newLoop(t, loop.Options{})
	var handles []loop.Handle
	for range 100_000 {
		handles = append(handles, l.CallSoon(func() {}))
	}
	l.CallSoon(func() { l.CallLater(time.Millisecond, l.Stop) }) // the lanes run empty, the loop waits
	run(t, l)
	ran := false
	l.CallSoon(func() { ran = true; l.Stop() })
	for _, h := range handles {
		if h.Cancel() {
			t.Fatal("a stale handle cancelled something")
		}
	}
	run(t, l)
	if !ran {
		t.Fatal("a callback after the flood was lost")
	}
}

func TestPostFromEverywhere(t *testing.T) {
	l := newLoop(t, loop.Options{})
	order := ""
	if err := l.Post(func() { // before Run
		order += "a"
		l.Post(func() { // from a posted callback
			order += "b"
			l.CallLater(0, func() { // from a timer
				l.Post(func() {
					order += "c"
					l.Stop()
					l.Post(func() { order += "d" }) // during Stop
				})
			})
		})
	}); err != nil {
		t.Fatal(err)
	}
	run(t, l)
	l.CallSoon(l.Stop)
	run(t, l)
	if order != "abcd" {
		t.Fatalf("order %q", order)
	}
}

// TestPostLosesNothing races posts with falling asleep: one that is lost hangs.
func TestPostLosesNothing(t *testing.T) {
	everyBackend(t, func(t *testing.T, opts loop.Options) {
		l := newLoop(t, opts)
		const posters, each = 4, 5000
		var next [posters]int
		left := posters * each
		for p := range posters {
			go func() {
				for i := range each {
					l.Post(func() {
						if next[p] != i {
							t.Errorf("poster %d: %d came as %d", p, i, next[p])
						}
						next[p]++
						if left--; left == 0 {
							l.Stop()
						}
					})
					if i%16 == 0 {
						runtime.Gosched()
					}
				}
			}()
		}
		run(t, l)
	})
}

func TestNothingAllocatesInSteadyState(t *testing.T) {
	l := newLoop(t, loop.Options{})
	fds := socketpair(t)
	write(fds[1], "x")
	nop := func() {}
	watched := func(loop.Ready) {}
	turn := func() {
		if _, err := l.RunOnce(0); err != nil {
			t.Fatal(err)
		}
	}
	for name, op := range map[string]func(){
		"CallSoon":         func() { l.CallSoon(nop); turn() },
		"CallSoon, cancel": func() { l.CallSoon(nop).Cancel(); turn() },
		"CallSoonPriority": func() { l.CallSoonPriority(loop.Low, nop); turn() },
		"CallLater, fire":  func() { l.CallLater(0, nop); turn(); turn() },
		"CallLater, cancel": func() {
			for range 100 {
				l.CallLater(time.Minute, nop).Cancel()
			}
		},
		"Post": func() { l.Post(nop); turn() },
		"AddReader, dispatch, RemoveReader": func() {
			l.AddReader(fds[0], nop)
			turn()
			l.RemoveReader(fds[0])
		},
		"Watch, dispatch, Cancel": func() {
			w, _ := l.Watch(fds[0], loop.Read|loop.Write, loop.Edge, watched)
			turn()
			w.Modify(loop.Read, loop.OneShot)
			turn()
			w.Cancel()
		},
		"Poll, Pending": func() {
			l.CallSoon(nop)
			l.Poll(0)
			for _, p := range l.Pending() {
				p.Run()
			}
		},
	} {
		for range 3000 { // past every first growth
			op()
		}
		if n := testing.AllocsPerRun(200, op); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
