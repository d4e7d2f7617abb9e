package inspect

import "time"

// Detach turns accounting off, so that tests leave no goroutine behind.
func Detach() { detach(func(*handler) bool { return true }) }

// Now returns the time of the inspector's clock.
func Now() time.Duration { return now() }

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
