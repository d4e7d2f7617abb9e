package inspect

import (
	"testing"
	"time"
)

// Detach turns accounting off, so that tests leave no goroutine behind.
func Detach() { detach(func(*handler) bool { return true }) }

// Now returns the time of the inspector's clock.
func Now() time.Duration { return now() }

// ShortPauses makes the inspector's pauses shorter, until t ends: a fiftieth of what they are.
// The clock stays.
func ShortPauses(t testing.TB) {
	faster.Store(50)
	Detach() // ends a longer pause that has begun
	t.Cleanup(func() { faster.Store(0) })
}

// Faster lets the inspector's clock run faster by a factor, until stop is called.
func Faster(factor int64) (stop func()) {
	faster.Store(factor)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for last := time.Now(); ; {
			select {
			case <-done:
				return
			case t := <-tick.C:
				ahead.Add(int64(t.Sub(last)) * (factor - 1))
				last = t
			}
		}
	}()
	return func() {
		close(done)
		<-ended
		faster.Store(0)
	}
}
