package kernel

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestNotifyReportsWhatComesAtOnce: an event comes when Notify has just returned, and on a busy
// machine its goroutine may not have begun to wait.
func TestNotifyReportsWhatComesAtOnce(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for range 30 {
		k, err := Open("epoll")
		must(t, err)
		defer k.Close()
		r, w := pipe(t)
		must(t, k.Add(r, 1, Read, Edge))
		called := make(chan struct{}, 1)
		stop, err := k.Poller.(Notifier).Notify(func() {
			select {
			case called <- struct{}{}:
			default:
			}
		})
		must(t, err)
		_, err = unix.Write(w, []byte{1})
		must(t, err)
		for began := time.Now(); time.Since(began) < 15*time.Millisecond; { // Go's poller looks meanwhile
		}
		<-called // or the test never ends
		stop()
	}
}
