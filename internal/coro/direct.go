package coro

import (
	"iter"
	"sync"

	"github.com/spindleloop/spindle/internal/goid"
)

// switchesDirectly reports whether a coroutine can switch to any other one. That depends
// on undocumented behaviour of iter.Pull: yield may be called by a goroutine other than
// the one it was made for. So the version of Go must be a tested one, and the test below
// must pass in this process.
var switchesDirectly = sync.OnceValue(func() bool { return goid.Proven && directWorks() })

// directWorks reports whether goroutines can pass control around in a circle, which no
// nesting of next and yield can do, and can end in another order than they began.
func directWorks() (works bool) {
	OnGoroutine(func() { // a panic ends this goroutine only
		defer func() { recover() }()
		works = passAround()
	})
	return works
}

// passAround passes control from the caller to a, to b, back to the caller, to a, to b,
// which ends, to the caller, and to a, which ends. It reports whether the three ran in
// that order. If a switch panics or returns at once, every coroutine returns, and control
// comes back by the rules of iter.Pull.
func passAround() bool {
	var a, b pull
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
		b.swap()()
		if !ranAfter("a", "abca") {
			return
		}
		a.swap()() // b is suspended there
		ranAfter("a", "abcabca")
	})
	b.next, _ = iter.Pull(func(yield func(struct{}) bool) {
		defer func() { recover() }()
		b.yield = directSwitch(yield)
		if !ranAfter("b", "ab") {
			return
		}
		a.swap()() // the caller is suspended there: this yield is a's
		ranAfter("b", "abcab")
	})
	a.swap()()
	if !ranAfter("c", "abc") {
		return false
	}
	b.swap()() // a is suspended there
	if !ranAfter("c", "abcabc") {
		return false
	}
	a.swap()() // a is suspended in its own pull
	return ranAfter("c", "abcabcac")
}
