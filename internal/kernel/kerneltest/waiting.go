package kerneltest

import (
	"context"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
)

var waiting = []test{
	{name: "WaitIsNotEarly", run: func(t *kernelT) {
		var events [1]kernel.Event
		for _, d := range []time.Duration{1, 700 * time.Nanosecond, 100 * time.Microsecond, 1500 * time.Microsecond, 3 * time.Millisecond} {
			early := 0
			for range 10 {
				begin := t.Mono()
				n, err := t.Wait(events[:], d)
				t.ok(err)
				if n != 0 {
					t.Fatal("an event although nothing is watched")
				}
				if t.Mono()-begin < d {
					early++
				}
			}
			// The contract allows a signal to end a wait early, but signals are rare.
			if early > 5 {
				t.Fatalf("%d of 10 waits for %v were early", early, d)
			}
		}
	}},
	{name: "LongestTimeoutsDoNotOverflow", run: func(t *kernelT) {
		a, _ := t.pair()
		t.ok(t.Add(a, 5, kernel.Write, kernel.Level))
		for _, d := range []time.Duration{1<<63 - 1, 1 << 62, -1, -1 << 63, 30 * 24 * time.Hour} {
			var events [1]kernel.Event
			n, err := t.Wait(events[:], d)
			t.ok(err)
			if n != 1 {
				t.Fatalf("timeout %v: %d events", d, n)
			}
		}
	}},
	{name: "WakeBeforeWaitIsNotLost", run: func(t *kernelT) {
		var events [1]kernel.Event
		for range 3 {
			t.Wake()
			n, err := t.Wait(events[:], -1)
			t.ok(err)
			if n != 0 {
				t.Fatal("a wake is not an event")
			}
		}
	}},
	{name: "ManyWakesAreOne", run: func(t *kernelT) {
		var events [1]kernel.Event
		for range 100 {
			t.Wake()
		}
		_, err := t.Wait(events[:], -1)
		t.ok(err)
		// If each wake were remembered, all these waits would return at once.
		// Signals end at most one or two of them early.
		begin := t.Mono()
		for range 10 {
			_, err = t.Wait(events[:], time.Millisecond)
			t.ok(err)
		}
		if took := t.Mono() - begin; took < 5*time.Millisecond {
			t.Fatalf("ten waits of 1ms returned after %v", took)
		}
	}},
	{name: "WakeDoesNotHideEvents", run: func(t *kernelT) {
		a, _ := t.pair()
		t.ok(t.Add(a, 5, kernel.Write, kernel.Level))
		t.Wake()
		t.event(5)
		t.event(5)
		t.Wake()
		t.event(5)
	}},
}

// services tests the Clock, Rand, Workers and Resolver of a kernel.
var services = []test{
	{name: "MonoDoesNotDecrease", run: func(t *kernelT) {
		last := t.Mono()
		for range 1000 {
			now := t.Mono()
			if now < last {
				t.Fatalf("%v after %v", now, last)
			}
			last = now
		}
	}},
	{name: "RandVaries", run: func(t *kernelT) {
		seen := map[uint64]bool{}
		for range 100 {
			seen[t.Uint64()] = true
		}
		if len(seen) < 100 {
			t.Fatalf("%d of 100 numbers are different", len(seen))
		}
	}},
	{name: "WorkersRunAndWake", run: func(t *kernelT) {
		done := make(chan struct{})
		t.Start(func() {
			close(done)
			t.Wake()
		})
		var events [1]kernel.Event
		for {
			_, err := t.Wait(events[:], testTimeout)
			t.ok(err)
			select {
			case <-done:
				return
			default:
			}
		}
	}},
	{name: "LocalhostResolves", run: func(t *kernelT) {
		ips, err := t.LookupNetIP(context.Background(), "ip4", "localhost")
		t.ok(err)
		if len(ips) == 0 || !ips[0].Unmap().IsLoopback() {
			t.Fatalf("localhost is %v", ips)
		}
	}},
}
