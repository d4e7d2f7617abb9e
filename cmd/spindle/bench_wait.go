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
	arrived := make(chan time.Time, 1) // buffered: the loop never blocks
	buf := make([]byte, 1)
	err = l.AddReader(wire.near, func() {
		at := time.Now()
		l.Internal().Kernel().Recv(wire.near, buf)
		arrived <- at
		l.Internal().Kernel().Send(wire.near, buf)
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
	s.add("ready_p50_us", percentile(micros, 50))
	s.add("ready_p99_us", percentile(micros, 99))
	return nil
}

// readyPause is how long the writer waits before it writes, so that the loop is asleep in the
// kernel by then.
const readyPause = 200 * time.Microsecond

// readyRound writes n bytes to a running loop, one by one, and returns the microseconds until
// each arrives. The writer waits in the kernel, as a peer on the network does: a goroutine that
// waits on a channel leaves its thread spinning for work, possibly on the core where the loop's
// thread has to wake up.
func readyRound(ctx context.Context, l *loop.Loop, wire pair, arrived <-chan time.Time, n int) ([]float64, error) {
	var micros []float64
	written := make(chan error, 1)
	go func() {
		defer l.Stop()
		for range n {
			sleepThread(readyPause)
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
		wire.hangUp() // unblocks the writer, because the loop has ended
	}
	if failed := <-written; err == nil {
		err = failed
	}
	return micros, err
}

// shortSleep is short enough to show the cost of waking up.
const shortSleep = time.Millisecond

func benchSleep(ctx context.Context, s *session) error {
	for range s.rounds {
		if err := s.round(ctx); err != nil {
			return err
		}
		_, err := inTask(ctx, func(ctx context.Context) error {
			took, err := averageSleep(s.sleeps, func() error { return spindle.Sleep(ctx, shortSleep) })
			s.add("sleep_1ms_us", took)
			return err
		})
		if err != nil {
			return err
		}
		took, _ := averageSleep(s.sleeps, func() error { time.Sleep(shortSleep); return nil })
		s.add("go_sleep_1ms_us", took)
	}
	return nil
}

// averageSleep returns how long a sleep takes on average, in microseconds.
func averageSleep(n int, sleep func() error) (float64, error) {
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
	// Otherwise the scavenger returns the memory of earlier benchmarks during the
	// measurement.
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
	s.add("idle_cpu_ms", cpu)
	s.add("idle_wakeups", wakeups)
	return nil
}

// The process is measured in windows of a second: the system ends longer waits less
// punctually, and Go's monitor thread then wakes up dozens of times until they end. Short
// windows, in which an idle process uses nothing, give the overhead of measuring.
const (
	window       = time.Second
	shortWindow  = 50 * time.Millisecond
	shortWindows = 11
)

// idling returns the CPU time in milliseconds and the wake-ups of the process in d, without
// the overhead of measuring.
func idling(ctx context.Context, d time.Duration) (cpu, wakeups float64, err error) {
	// Wait until the collector is done and the watchdog sleeps.
	if err := rest(ctx, 4*shortWindow); err != nil {
		return 0, 0, err
	}
	var cpus, wakes []float64
	for range shortWindows {
		used, err := usageIn(ctx, shortWindow)
		if err != nil {
			return 0, 0, err
		}
		cpus, wakes = append(cpus, used.cpuMillis()), append(wakes, float64(used.switches))
	}
	for left := d; left > 0; left -= window {
		used, err := usageIn(ctx, min(left, window))
		if err != nil {
			return 0, 0, err
		}
		cpu += used.cpuMillis() - percentile(cpus, 50)
		wakeups += float64(used.switches) - percentile(wakes, 50)
	}
	return max(cpu, 0), max(wakeups, 0), nil
}

// resources are what a process has used.
type resources struct {
	cpu      time.Duration // user and system time
	switches int64         // voluntary context switches
}

func (r resources) cpuMillis() float64 { return float64(r.cpu.Nanoseconds()) / 1e6 }

// usageIn waits for d and returns what the process has used meanwhile.
func usageIn(ctx context.Context, d time.Duration) (resources, error) {
	before, err := usageNow()
	if err != nil {
		return resources{}, err
	}
	if err := rest(ctx, d); err != nil {
		return resources{}, err
	}
	after, err := usageNow()
	return resources{after.cpu - before.cpu, after.switches - before.switches}, err
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
