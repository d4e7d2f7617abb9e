//go:build go1.26 && !go1.27 && (amd64 || arm64) && !spindle_portable && !spindle_noasm

package goid

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"
)

// CanPeek reports whether CheapStackOf needs no dump.
const CanPeek = true

// head is how a g begins in the Go versions that this file is built for.
type head struct {
	low, high uintptr    // the bounds of the stack
	_         [5]uintptr // stackguard0, stackguard1, _panic, _defer, m
	sched     registers  // where the goroutine continues; not kept up to date while it runs
	call      struct {   // where it has left Go for a system call
		sp, pc, bp uintptr
	}
	_      [2]uintptr // stktopsp, param
	status uint32
	_      uint32 // stackLock
	number uint64
}

type registers struct{ sp, pc, g, ctxt, lr, bp uintptr }

// The states of goroutines that do not run. The collector sets a bit while it scans a stack.
const (
	runnable  = 1
	inSyscall = 3
	waiting   = 4
	preempted = 9
	scanned   = 0x1000
)

var stateNames = map[uint32]string{runnable: "runnable", inSyscall: "syscall", waiting: "waiting", preempted: "preempted"}

// peekStack returns the stack of a goroutine that Current identified, or nil if it cannot.
// It looks at no other goroutine, so it takes as long with a million of them as with two.
//
// It follows the frame pointers from where the goroutine has stopped. One that runs is
// stopped first: the runtime stops the world for some 50 µs, to count goroutines, and then
// starts it again. The goroutine is "runnable" then until a thread takes it, which takes
// longer than to follow the pointers. If it does not, peekStack tries again.
func peekStack(g uintptr) []byte {
	if g == 0 || !peeks() {
		return nil
	}
	return stopAndPeek(g)
}

func stopAndPeek(g uintptr) []byte {
	const tries = 100 // one is enough, but on a busy machine the caller may lose its CPU too
	for range tries {
		if stack := stackOf(g); stack != nil {
			return stack
		}
		var tooFew [1]runtime.StackRecord // for a profile: none is made
		runtime.GoroutineProfile(tooFew[:])
		if stack := stackOf(g); stack != nil {
			return stack
		}
		runtime.Gosched()
	}
	return nil
}

// stackOf returns the stack of a goroutine, or nil if the goroutine runs.
func stackOf(g uintptr) []byte {
	var pcs [128]uintptr
	n, status, number := walk(g, &pcs)
	if n == 0 {
		return nil
	}
	return describe(number, status, callers(pcs[:n]))
}

// walk follows the frame pointers of a goroutine that does not run. The goroutine may begin
// to run meanwhile, or the collector may move its stack: then n is 0. A g is never freed,
// and the memory of a stack stays readable.
//
//go:norace
//go:nocheckptr
func walk(g uintptr, pcs *[128]uintptr) (n int, status uint32, number uint64) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			n = 0
		}
	}()
	at := (*head)(unsafe.Add(nil, g))
	before := *at
	status, number = atomic.LoadUint32(&at.status)&^scanned, before.number
	sp, pc, bp := before.sched.sp, before.sched.pc, before.sched.bp
	switch status {
	case inSyscall:
		sp, pc, bp = before.call.sp, before.call.pc, before.call.bp
	case runnable, waiting, preempted:
	default:
		return 0, 0, 0
	}
	within := func(p uintptr) bool { return p >= before.low && p < before.high-8 && p%8 == 0 }
	if pc == 0 || !within(sp) {
		return 0, 0, 0
	}
	pcs[0], n = pc, 1
	if isStackCheck(pc) { // the function has no frame yet, so no frame pointer leads to its caller
		if pcs[1] = before.sched.lr; pcs[1] == 0 {
			pcs[1] = *(*uintptr)(unsafe.Add(nil, sp))
		}
		n = 2
	}
	for n < len(pcs)-1 && within(bp) {
		frame := *(*[2]uintptr)(unsafe.Add(nil, bp)) // the caller's frame pointer, and where it continues
		pcs[n] = frame[1]
		n++
		if isInterrupted(pcs[n-2]) {
			if caller := skippedCaller(bp, frame, within); caller != 0 {
				pcs[n] = caller
				n++
			}
		}
		if frame[0] <= bp {
			break
		}
		bp = frame[0]
	}
	after := *at
	if after.sched != before.sched || after.call != before.call || after.number != number ||
		after.low != before.low || atomic.LoadUint32(&at.status)&^scanned != status {
		return 0, 0, 0
	}
	return n, status, number
}

// isStackCheck reports whether a goroutine was stopped where a function checks the size of its
// stack: the call before pc is one of morestack.
func isStackCheck(pc uintptr) bool {
	f := runtime.FuncForPC(calledBefore(pc))
	return f != nil && strings.HasPrefix(f.Name(), "runtime.morestack")
}

// callers makes the addresses those that runtime.CallersFrames takes: it subtracts one, which
// is wrong for an address at which a signal has stopped the goroutine.
func callers(pcs []uintptr) []uintptr {
	for i, pc := range pcs[:len(pcs)-1] {
		if isInterrupted(pc) {
			pcs[i+1]++
		}
	}
	return pcs
}

// isInterrupted reports whether pc is in the function that runs after a signal has stopped
// the goroutine.
func isInterrupted(pc uintptr) bool {
	f := runtime.FuncForPC(pc - 1)
	return f != nil && f.Name() == "runtime.asyncPreempt"
}

// describe writes a stack in the form of runtime.Stack, without arguments.
func describe(number uint64, status uint32, pcs []uintptr) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "goroutine %d [%s]:\n", number, stateNames[status])
	known := false
	for frames := runtime.CallersFrames(pcs); ; {
		frame, more := frames.Next()
		if name := frame.Function; name != "" && !isHidden(name) {
			known = true
			fmt.Fprintf(&b, "%s(...)\n\t%s:%d\n", name, frame.File, frame.Line)
		}
		if !more {
			break
		}
	}
	if !known {
		return nil
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// isHidden reports whether runtime.Stack leaves out a function: one of the runtime that
// programs cannot call.
func isHidden(function string) bool {
	name, ok := strings.CutPrefix(function, "runtime.")
	return ok && (name == "" || name[0] < 'A' || name[0] > 'Z')
}

// peeks reports whether a g is as this file says.
var peeks = sync.OnceValue(func() bool {
	if findNumber() != int(unsafe.Offsetof(head{}.number)) {
		return false
	}
	gs, release := make(chan uintptr), make(chan struct{})
	go peekedAt(gs, release)
	defer close(release)
	return bytes.Contains(stopAndPeek(<-gs), []byte("goid.peekedAt("))
})

//go:noinline
func peekedAt(gs chan uintptr, release chan struct{}) {
	gs <- Current()
	<-release
}
