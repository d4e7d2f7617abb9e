package main

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/spindleloop/spindle/loop"
)

// timerRounds is a loop and the memory that its rounds share.
type timerRounds struct {
	l       *loop.Loop
	set     [batch]loop.Timer
	goSet   [batch]*time.Timer
	delays  []time.Duration // of the timers that fire
	pending []loop.Timer    // background timers, shuffled
	next    int             // index in pending of the timer to replace
}

func benchTimers(ctx context.Context, s *session) error {
	l, err := newBenchLoop()
	if err != nil {
		return err
	}
	defer l.Close()
	t := &timerRounds{l: l, delays: make([]time.Duration, s.timers)}
	for i := range t.delays {
		t.delays[i] = rand.N(50 * time.Millisecond).Truncate(time.Millisecond)
	}
	cancel := func() (float64, error) { return t.cancel(ctx, s.cancels) }
	fire := func() (float64, error) { return t.fire(ctx) }
	replace := func() (float64, error) { return t.replace(ctx, s.replaced) }

	err = s.besideGo(ctx, "timer_cancel", cancel, func() float64 { return t.cancelGo(s.cancels) })
	if err != nil {
		return err
	}
	if err := s.besideGo(ctx, "timer_fire", fire, t.fireGo); err != nil {
		return err
	}
	if err := t.fill(ctx, s.timers); err != nil {
		return err
	}
	if err := s.each(ctx, "timer_cancel_million_per_s", cancel); err != nil {
		return err
	}
	if err := s.each(ctx, "timer_fire_million_per_s", fire); err != nil {
		return err
	}
	return s.each(ctx, "timer_million_ns", replace)
}

// besideGo measures ours and Go's timers alternately, so that other load on the machine
// affects both.
func (s *session) besideGo(ctx context.Context, name string, ours func() (float64, error), gos func() float64) error {
	return s.each(ctx, name+"_per_s", func() (float64, error) {
		us, err := ours()
		if err != nil {
			return 0, err
		}
		if err := s.round(ctx); err != nil {
			return 0, err
		}
		s.add("go_"+name+"_per_s", gos())
		return us, nil
	})
}

// cancelDelay returns the delay of a timer that will be cancelled.
func cancelDelay(i int) time.Duration { return time.Second + time.Duration(i%50)*time.Millisecond }

// cancel sets a batch of timers and cancels them, in each turn.
func (t *timerRounds) cancel(ctx context.Context, n int) (float64, error) {
	turn := func() {
		for i := range t.set {
			t.set[i] = t.l.CallLater(cancelDelay(i), nothing)
		}
		for i := range t.set {
			t.set[i].Cancel()
		}
	}
	took, err := timed(ctx, t.l, inBatches(t.l, n, turn, t.l.Stop))
	return perSecondOf(n, took), err
}

func (t *timerRounds) cancelGo(n int) float64 {
	start := time.Now()
	for left := n; left > 0; left -= batch {
		for i := range t.goSet {
			t.goSet[i] = time.AfterFunc(cancelDelay(i), nothing)
		}
		for i := range t.goSet {
			t.goSet[i].Stop()
		}
	}
	return perSecondOf(n, time.Since(start))
}

// fire sets all timers and waits until the last has fired.
func (t *timerRounds) fire(ctx context.Context) (float64, error) {
	left := len(t.delays)
	fired := func() {
		if left--; left == 0 {
			t.l.Stop()
		}
	}
	next := t.delays
	turn := func() {
		for _, d := range next[:batch] {
			t.l.CallLater(d, fired)
		}
		next = next[batch:]
	}
	took, err := timed(ctx, t.l, inBatches(t.l, len(t.delays), turn, nothing))
	return perSecondOf(len(t.delays), took), err
}

func (t *timerRounds) fireGo() float64 {
	var left atomic.Int64
	left.Store(int64(len(t.delays)))
	done := make(chan struct{})
	fired := func() {
		if left.Add(-1) == 0 {
			close(done)
		}
	}
	start := time.Now()
	for _, d := range t.delays {
		time.AfterFunc(d, fired)
	}
	<-done
	return perSecondOf(len(t.delays), time.Since(start))
}

// backgroundDelay returns the delay of a pending background timer. A few of them fire during
// the measurement, as in a real program.
func backgroundDelay() time.Duration { return rand.N(time.Minute) }

func (t *timerRounds) fill(ctx context.Context, n int) error {
	t.pending = make([]loop.Timer, 0, n)
	turn := func() {
		for range batch {
			t.pending = append(t.pending, t.l.CallLater(backgroundDelay(), nothing))
		}
	}
	_, err := timed(ctx, t.l, inBatches(t.l, n, turn, t.l.Stop))
	// Shuffled once and used in order, the timers are cancelled in random order, without
	// random accesses to this slice during the measurement.
	rand.Shuffle(len(t.pending), func(i, j int) { t.pending[i], t.pending[j] = t.pending[j], t.pending[i] })
	return err
}

// replace cancels the pending timers one after the other and sets a new one for each. It
// returns the nanoseconds of one replacement.
func (t *timerRounds) replace(ctx context.Context, n int) (float64, error) {
	turn := func() {
		for range batch {
			one := &t.pending[t.next]
			one.Cancel()
			*one = t.l.CallLater(backgroundDelay(), nothing)
			t.next = (t.next + 1) % len(t.pending)
		}
	}
	took, err := timed(ctx, t.l, inBatches(t.l, n, turn, t.l.Stop))
	return float64(took.Nanoseconds()) / float64(n), err
}
