package spindle

import (
	"iter"
	"sync"
)

// switchesDirectly reports whether a coroutine can switch to any other one. That rests
// on behaviour of iter.Pull that is documented nowhere: yield may be called by another
// goroutine than the one it was made for. So it must be a proven version of Go, and
// pass a test in this very process.
var switchesDirectly = sync.OnceValue(func() bool { return directProven && directWorks() })

// directWorks reports whether goroutines can pass control around in a circle, which no
// nesting of next and yield can do, and can end in another order than they began.
func directWorks() (works bool) {
	aside(func() { // a panic ends this goroutine only
		defer func() { recover() }()
		works = passAround()
	})
	return works
}

// passAround passes control from the caller to a, to b, back to the caller, to a, to b,
// which ends, to the caller, and to a, which ends. It reports whether the three ran in
// that order. Where a switch fails, by a panic or by coming back at once, every
// coroutine returns, and control comes back by the rules of iter.Pull.
func passAround() bool {
	var a, b seat
	var order string
	ranAfter := func(step, expected string) bool {
		order += step
		return order == expected
	}
	a.next, _ = iter.Pull(func(yield func(struct{}) bool) {
		defer func() { recover() }()
		a.yield = directSwitch(yield)
		if !ranAfter("a", "a") {
			return
		}
		b.take()()
		if !ranAfter("a", "abca") {
			return
		}
		a.take()() // b sits there
		ranAfter("a", "abcabca")
	})
	b.next, _ = iter.Pull(func(yield func(struct{}) bool) {
		defer func() { recover() }()
		b.yield = directSwitch(yield)
		if !ranAfter("b", "ab") {
			return
		}
		a.take()() // the caller sits there: this yield is a's
		ranAfter("b", "abcab")
	})
	a.take()()
	if !ranAfter("c", "abc") {
		return false
	}
	b.take()() // a sits there
	if !ranAfter("c", "abcabc") {
		return false
	}
	a.take()() // a sits in its own seat
	return ranAfter("c", "abcabcac")
}
