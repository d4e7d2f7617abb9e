package wheel_test

import (
	"runtime"
	"slices"
	"testing"

	"github.com/spindleloop/spindle/loop/internal/wheel"
)

func TestSteadyStateAllocatesNothing(t *testing.T) {
	w := wheel.New(0)
	now := int64(0)
	cycle := func() {
		for i := range int64(500) {
			w.Cancel(w.Add(now+i*1000, nop))
			w.Add(now+i*997, nop)
		}
		now += 1e6
		drain(w, now)
	}
	for range 100 {
		cycle()
	}
	if n := testing.AllocsPerRun(100, cycle); n != 0 {
		t.Fatalf("%v allocations, want 0", n)
	}
}

// The test adds far more timers than one page holds, again and again, and ends them
// in every way. Nodes and chunks must be reused.
func TestWavesAllocateNothing(t *testing.T) {
	now := int64(0)
	for name, end := range map[string]func(*wheel.Wheel, []wheel.Ref){
		"fired": func(w *wheel.Wheel, _ []wheel.Ref) { drain(w, now+1e9) },
		"cancelled": func(w *wheel.Wheel, refs []wheel.Ref) {
			for _, r := range refs {
				w.Cancel(r)
			}
			for range 3000 { // long enough for the sweep to visit all chunks
				w.Cancel(w.Add(now+1, nop))
			}
			drain(w, now+2)
		},
	} {
		now = 0
		w := wheel.New(now)
		refs := make([]wheel.Ref, 5000)
		wave := func() {
			for i := range refs {
				refs[i] = w.Add(now+1e6+int64(i)*3*tick/2, nop)
			}
			end(w, refs)
			now += 2e9
		}
		for range 50 {
			wave()
		}
		if n := testing.AllocsPerRun(20, wave); n != 0 {
			t.Errorf("%s: %v allocations per wave, want 0", name, n)
		}
	}
}

// The wheel must not keep the memory of a function that cannot run any more.
func TestFiredAndCancelledFunctionsAreFreed(t *testing.T) {
	w := wheel.New(0)
	freed := make(chan string, 2)
	add := func(name string, when int64) wheel.Ref {
		held := new([1 << 16]byte)
		runtime.AddCleanup(held, func(name string) { freed <- name }, name)
		return w.Add(when, func() { held[0]++ })
	}
	add("fired", 10)
	drain(w, 10)
	w.Cancel(add("cancelled", 20*tick))
	runtime.GC()
	got := []string{<-freed, <-freed} // hangs if one is kept
	slices.Sort(got)
	if !slices.Equal(got, []string{"cancelled", "fired"}) {
		t.Errorf("freed %q", got)
	}
	runtime.KeepAlive(w)
}
