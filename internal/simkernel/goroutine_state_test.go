package simkernel

import "testing"

func TestGoroutinesThatWaitForTheRuntimeAreNotBlocked(t *testing.T) {
	for stack, want := range map[string]bool{
		"goroutine 9 [semacquire]:\nruntime.GC()\n\t/go/src/runtime/mgc.go:555 +0x3b\nmain.main()":                  false,
		"goroutine 9 [semacquire]:\nmain.allocates()\n\t/p/main.go:5 +0x3b":                                         false,
		"goroutine 9 [wait for GC cycle]:\nruntime.GC()\n\t/go/src/runtime/mgc.go:558 +0x45":                        false,
		"goroutine 9 [runnable]:\nmain.main()\n\t/p/main.go:5 +0x3b":                                                false,
		"goroutine 9 [semacquire]:\ninternal/poll.runtime_Semacquire(0x1)\n\t/go/src/runtime/sema.go:71 +0x25":      true,
		"goroutine 9 [semacquire, 2 minutes]:\nsync.runtime_SemacquireWaitGroup(0x1)\n\t/go/src/runtime/sema.go:71": true,
		"goroutine 9 [sync.Mutex.Lock]:\ninternal/sync.runtime_SemacquireMutex(0x1)\n\t/go/src/runtime/sema.go:95":  true,
		"goroutine 9 [chan receive (durable), synctest bubble 8]:\nmain.main()\n\t/p/main.go:5 +0x3b":               true,
	} {
		if got := blocks(stateOf([]byte(stack)), []byte(stack)); got != want {
			t.Errorf("blocks is %v, want %v, for\n%s", got, want, stack)
		}
	}
}
