package simkernel

import (
	"iter"
	"sync"

	"github.com/spindleloop/spindle/internal/goid"
)

// A switch passes control between the driver of a world and a process. The driver calls next.
// The process calls yield on any of its goroutines, which is the one that continues: a loop
// may run its turns on several.

// newSwitch returns the next of a switch. Next begins main, or continues it, until yield is called
// or main has returned. It reports whether it was the former.
func newSwitch(main func(yield func())) (next func() bool) {
	if pullSwitches() {
		return pullSwitch(main)
	}
	return channelSwitch(main)
}

// pullSwitch uses the coroutine of iter.Pull, which is quick. That its yield may be called by a
// goroutine other than the one it was made for is not documented.
func pullSwitch(main func(yield func())) (next func() bool) {
	pull, _ := iter.Pull(func(yield func(struct{}) bool) {
		main(func() { yield(struct{}{}) })
	})
	return func() bool { _, more := pull(); return more }
}

// pullSwitches reports whether pullSwitch works: the version of Go is a tested one, and another
// goroutine can yield in this process.
var pullSwitches = sync.OnceValue(func() bool { return goid.Proven && anotherMayYield(pullSwitch) })

// anotherMayYield reports whether a switch can be used by a goroutine other than that of main,
// and whether that goroutine is the one that continues.
func anotherMayYield(newSwitch func(func(yield func())) func() bool) (works bool) {
	tested := make(chan struct{})
	go func() { // a panic ends this goroutine only
		defer close(tested)
		defer func() { recover() }()
		order := ""
		next := newSwitch(func(yield func()) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer func() { recover() }()
				order += "b"
				yield()
				order += "d"
			}()
			<-done
			order += "e"
		})
		order += "a"
		more := next()
		order += "c"
		works = more && !next() && order == "abcde"
	}()
	<-tested
	return works
}

// channelSwitch uses documented behaviour only.
func channelSwitch(main func(yield func())) (next func() bool) {
	type event struct {
		yielded, panicked bool
		value             any
	}
	proceed, events := make(chan struct{}), make(chan event)
	begun := false
	begin := func() {
		end := event{panicked: true} // or Goexit, when recover returns nil
		defer func() {
			if end.panicked {
				end.value = recover()
				end.panicked = end.value != nil
			}
			events <- end
		}()
		main(func() {
			events <- event{yielded: true}
			<-proceed
		})
		end.panicked = false
	}
	return func() bool {
		if begun {
			proceed <- struct{}{}
		} else {
			begun = true
			go begin()
		}
		e := <-events
		if e.panicked {
			panic(e.value)
		}
		return e.yielded
	}
}
