package loop_test

import (
	"context"
	"testing"
	"time"

	"github.com/spindleloop/spindle/loop"
)

// BenchmarkCallSoon schedules and runs callbacks in batches of 64.
func BenchmarkCallSoon(b *testing.B) {
	l := newLoop(b, loop.Options{})
	left := b.N
	nop := func() {}
	var batch func()
	batch = func() {
		if left <= 0 {
			l.Stop()
			return
		}
		left -= 64
		for range 63 {
			l.CallSoon(nop)
		}
		l.CallSoon(batch)
	}
	l.CallSoon(batch)
	b.ReportAllocs()
	b.ResetTimer()
	run(b, l)
}

// BenchmarkTurn runs a callback that schedules the next one: one turn each.
func BenchmarkTurn(b *testing.B) {
	l := newLoop(b, loop.Options{})
	left := b.N
	var again func()
	again = func() {
		if left--; left <= 0 {
			l.Stop()
			return
		}
		l.CallSoon(again)
	}
	l.CallSoon(again)
	b.ReportAllocs()
	b.ResetTimer()
	run(b, l)
}

func BenchmarkTimerAddCancel(b *testing.B) {
	l := newLoop(b, loop.Options{})
	nop := func() {}
	b.ReportAllocs()
	for b.Loop() {
		l.CallLater(time.Minute, nop).Cancel()
	}
}

// BenchmarkTimerAddCancelThousand sets a thousand timers and then cancels them.
func BenchmarkTimerAddCancelThousand(b *testing.B) {
	l := newLoop(b, loop.Options{})
	nop := func() {}
	timers := make([]loop.Timer, 1000)
	b.ReportAllocs()
	for b.Loop() {
		for i := range timers {
			timers[i] = l.CallLater(time.Minute, nop)
		}
		for _, t := range timers {
			t.Cancel()
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/timer")
}

func BenchmarkPost(b *testing.B) {
	l := newLoop(b, loop.Options{})
	done := make(chan error)
	go func() { done <- l.Run(context.Background()) }()
	nop := func() {}
	b.ReportAllocs()
	for b.Loop() {
		if err := l.Post(nop); err != nil {
			b.Fatal(err)
		}
	}
	l.Post(l.Stop)
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}
