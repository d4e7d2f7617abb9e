package simkernel_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/simkernel"
)

func TestFailCall(t *testing.T) {
	b := newBench(t)
	b.near.Host().FailCall("socket", 2, syscall.ENOMEM)
	b.socket(b.near, kernel.IPv4, kernel.Stream)
	_, err := b.near.Socket(kernel.IPv4, kernel.Stream)
	b.want(err, syscall.ENOMEM)
	b.socket(b.near, kernel.IPv4, kernel.Stream)
	fd := b.dial()
	b.pass(10 * time.Millisecond)
	b.far.Host().FailCall("accept", 1, syscall.EMFILE)
	_, err = b.far.Accept(b.listener)
	b.want(err, syscall.EMFILE)
	_, err = b.far.Accept(b.listener) // the connection is still in the queue
	b.ok(err)
	b.outcome(fd, 0)
}

// TestClockDrift: the timers of a fast clock fire early in the world's time, but never
// before their own time.
func TestClockDrift(t *testing.T) {
	for _, ppm := range []int{0, 1, -1, 100, -100, 500000, -500000, 333333} {
		w := simkernel.New(1)
		h := w.AddHost("h")
		p := h.NewProcess()
		w.AddHost("idle")
		h.SetClock(time.Hour, ppm)
		var events [1]kernel.Event
		for _, d := range []time.Duration{1, 999, time.Millisecond, time.Second + 1, 24 * time.Hour} {
			before, began := p.Mono(), w.Now()
			if _, err := p.Wait(events[:], d); err != nil {
				t.Fatal(err)
			}
			if took := p.Mono() - before; took < d || took > d+2 {
				t.Errorf("%d ppm: a wait for %v took %v", ppm, d, took)
			}
			real, want := float64(w.Now()-began), float64(d)/(1+float64(ppm)/1e6)
			if real < want-2 || real > want+3 {
				t.Errorf("%d ppm: %v took %v in the world, want %v", ppm, d, real, want)
			}
		}
		if off := p.Wall().Sub(simkernel.Begin) - p.Mono(); off != time.Hour {
			t.Errorf("off by %v", off)
		}
		h.SetClock(0, 0)
		if p.Mono() < 24*time.Hour {
			t.Error("the monotonic clock went back")
		}
		p.Close()
	}
}
