package main

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
)

func benchReady(ctx context.Context, s *session) error {
	l, err := newBenchLoop()
	if err != nil {
		return err
	}
	defer l.Close()
	wire, err := newPair()
	if err != nil {
		return err
	}
	defer wire.close()
	arrived := make(chan time.Time, 1) // room for one: the loop never blocks
	buf := make([]byte, 1)
	err = l.AddReader(wire.near, func() {
		at := time.Now()
		l.Kernel().Recv(wire.near, buf)
		arrived <- at
		l.Kernel().Send(wire.near, buf)
	})
	if err != nil {
		return err
	}
	var micros []float64
	for range s.rounds {
		if err := s.round(ctx); err != nil {
			return err
		}
		got, err := readyRound(ctx, l, wire, arrived, s.bytes)
		if err != nil {
			return err
		}
		micros = append(micros, got...)
	}
	s.set("ready_p50_us", percentile(micros, 50))
	s.set("ready_p99_us", percentile(micros, 99))
	return nil
}

// readyRest is how long the writer waits before it writes, so that the loop
// is asleep in the kernel by then and not on its way there.
const readyRest = 200 * time.Microsecond

// readyRound writes n bytes to a running loop, one by one, and returns how long
// each took to arrive, in microseconds. The writer is a thread that waits in the
// kernel, as a peer on the network would: a goroutine that waits on a channel
// leaves its thread spinning for other work on the very core where the loop's
// thread is to wake up.
func readyRound(ctx context.Context, l *loop.Loop, wire pair, arrived <-chan time.Time, n int) ([]float64, error) {
	var micros []float64
	written := make(chan error, 1)
	go func() {
		defer l.Stop()
		for range n {
			doze(readyRest)
			start := time.Now()
			err := wire.send()
			if err == nil {
				err = wire.answered()
			}
			if err != nil {
				written <- err
				return
			}
			at := <-arrived
			micros = append(micros, float64(at.Sub(start).Nanoseconds())/1e3)
		}
		written <- nil
	}()
	err := l.Run(ctx)
	if err != nil {
		wire.hangUp() // the writer waits for a loop that has ended
	}
	if failed := <-written; err == nil {
		err = failed
	}
	return micros, err
}

// nap is a sleep short enough to show what waking up costs.
const nap = time.Millisecond

func benchSleep(ctx context.Context, s *session) error {
	var ours, gos []float64
	for range s.rounds {
		if err := s.round(ctx); err != nil {
			return err
		}
		_, err := inTask(ctx, func(ctx context.Context) error {
			took, err := napRound(s.naps, func() error { return spindle.Sleep(ctx, nap) })
			ours = append(ours, took)
			return err
		})
		if err != nil {
			return err
		}
		took, _ := napRound(s.naps, func() error { time.Sleep(nap); return nil })
		gos = append(gos, took)
	}
	s.set("sleep_1ms_us", mean(ours))
	s.set("go_sleep_1ms_us", mean(gos))
	return nil
}

// napRound returns how long a nap takes on average, in microseconds.
func napRound(n int, sleep func() error) (float64, error) {
	var total time.Duration
	for range n {
		start := time.Now()
		if err := sleep(); err != nil {
			return 0, err
		}
		total += time.Since(start)
	}
	return float64(total.Nanoseconds()) / 1e3 / float64(n), nil
}

func benchIdle(ctx context.Context, s *session) error {
	if err := s.round(ctx); err != nil {
		return err
	}
	l, err := newBenchLoop()
	if err != nil {
		return err
	}
	defer l.Close()
	for range 3 {
		wire, err := newPair()
		if err != nil {
			return err
		}
		defer wire.close()
		if err := l.AddReader(wire.near, nothing); err != nil {
			return err
		}
	}
	// Earlier benchmarks leave memory that the scavenger would give back in
	// the background, on our account.
	debug.FreeOSMemory()
	ran := make(chan error, 1)
	go func() { ran <- l.Run(ctx) }()
	cpu, wakeups, err := idling(ctx, s.idle)
	l.Stop()
	if failed := <-ran; err == nil {
		err = failed
	}
	if err != nil {
		return err
	}
	s.set("idle_cpu_ms", cpu)
	s.set("idle_wakeups", wakeups)
	return nil
}

// The process is looked at through windows: of a second, because the system
// ends longer waits less punctually, and Go's monitor then wakes up dozens of
// times until they do end; and of a glance, too short for an idle process to
// spend anything in. What it spends there all the same is the price of looking.
const (
	window  = time.Second
	glance  = 50 * time.Millisecond
	glances = 11
)

// idling returns the CPU time, in milliseconds, and the wake-ups of the process
// in d, less the price of looking.
func idling(ctx context.Context, d time.Duration) (cpu, wakeups float64, err error) {
	// The collector finishes its work and the watchdog falls asleep.
	if err := rest(ctx, 4*glance); err != nil {
		return 0, 0, err
	}
	var cpus, wakes []float64
	for range glances {
		used, err := spentWithin(ctx, glance)
		if err != nil {
			return 0, 0, err
		}
		cpus, wakes = append(cpus, used.cpuMillis()), append(wakes, float64(used.switches))
	}
	for left := d; left > 0; left -= window {
		used, err := spentWithin(ctx, min(left, window))
		if err != nil {
			return 0, 0, err
		}
		cpu += used.cpuMillis() - percentile(cpus, 50)
		wakeups += float64(used.switches) - percentile(wakes, 50)
	}
	return max(cpu, 0), max(wakeups, 0), nil
}

// expense is what a process has used up.
type expense struct {
	cpu      time.Duration // in the process and in the system for it
	switches int64         // times a thread gave up the processor to wait
}

func (e expense) cpuMillis() float64 { return float64(e.cpu.Nanoseconds()) / 1e6 }

// spentWithin waits and returns what the process has used up meanwhile.
func spentWithin(ctx context.Context, d time.Duration) (expense, error) {
	before, err := spent()
	if err != nil {
		return expense{}, err
	}
	if err := rest(ctx, d); err != nil {
		return expense{}, err
	}
	after, err := spent()
	return expense{after.cpu - before.cpu, after.switches - before.switches}, err
}

func rest(ctx context.Context, d time.Duration) error {
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-over.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
