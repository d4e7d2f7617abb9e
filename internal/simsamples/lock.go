package simsamples

import (
	"context"
	"fmt"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/sim"
)

var lockFaults = sim.Faults{
	For: 20 * time.Second, Lasting: 2 * time.Second,
	PartitionEvery: 8 * time.Second, PauseEvery: 3 * time.Second, ClockEvery: 10 * time.Second,
}

// leaseTime is the duration of a lease.
const leaseTime = time.Second

// lock is a lock service and workers that write to a store while they have the lock. Each
// lease has a higher number than the one before. A worker may be paused or partitioned for
// longer than its lease. A fenced store rejects a number lower than one it has seen. So no
// worker writes after one that got the lock later.
func lock(fenced bool) func(w *sim.World) {
	return func(w *sim.World) {
		w.Host("locks").Serve(grantLeases)
		store := &store{fenced: fenced}
		w.Host("store").Serve(func(ctx context.Context) error { return serve(ctx, ":2", store.write) })
		w.Always("writes come in the order of leases", func() error { return store.fault })
		turns := w.Amount("turns", 3)
		for i := range w.Amount("workers", 3) {
			host := w.Host(fmt.Sprint("worker", i+1))
			done := 0
			host.Go(func(ctx context.Context) error {
				for ; done < turns; done++ { // after a crash it continues where it was
					if err := work(ctx, host.Name()); err != nil {
						return err
					}
				}
				return nil
			})
			w.Eventually(host.Name()+" has had its turns", 20*time.Minute, func() bool { return done == turns })
		}
	}
}

// grantLeases is the lock service. It grants the lock again when the lease has ended by its
// own clock.
func grantLeases(ctx context.Context) error {
	l := spindle.LoopOf(ctx)
	number, holder := 0, ""
	var until time.Duration
	return serve(ctx, ":1", func(line string) string {
		var word, worker string
		fmt.Sscan(line, &word, &worker)
		switch {
		case word == "free" && worker == holder:
			holder = ""
		case word == "lock" && (holder == "" || l.Time() >= until):
			number++
			holder, until = worker, l.Time()+leaseTime
			return fmt.Sprint("lease ", number)
		}
		return "no"
	})
}

// store checks the numbers of writes.
type store struct {
	fenced bool
	last   int   // the highest number so far
	fault  error // a write with a lower number
}

func (s *store) write(line string) string {
	var number int
	var worker string
	fmt.Sscanf(line, "write %d %s", &number, &worker)
	if number < s.last {
		if s.fenced {
			return "no"
		}
		s.fault = fmt.Errorf("%s writes with lease %d after lease %d", worker, number, s.last)
	}
	s.last = max(s.last, number)
	return "ok"
}

// work is one turn of a worker: lock, think, write, free.
func work(ctx context.Context, name string) error {
	for {
		answer, err := askUntilAnswered(ctx, "locks:1", "lock "+name, leaseTime)
		if err != nil {
			return err
		}
		var number int
		if n, _ := fmt.Sscanf(answer, "lease %d", &number); n == 1 {
			if err := spindle.Sleep(ctx, leaseTime/4); err != nil {
				return err
			}
			_, err := ask(ctx, "store:2", fmt.Sprintf("write %d %s", number, name), leaseTime)
			if err == nil {
				_, err = ask(ctx, "locks:1", "free "+name, leaseTime)
			}
			if err == nil || ctx.Err() != nil {
				return ctx.Err()
			}
		}
		if err := spindle.Sleep(ctx, leaseTime/2); err != nil {
			return err
		}
	}
}
