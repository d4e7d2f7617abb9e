// Package leak fails a package's tests if they leave goroutines or file
// descriptors behind.
package leak

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"
)

// grace is how long goroutines may take to end, and descriptors and memory to be released,
// after the tests. Only a failure takes so long.
const grace = 30 * time.Second

// Main runs the tests of m, a *testing.M or a wrapper of it, and exits. Call it from TestMain.
func Main(m interface{ Run() int }) {
	// The runtime opens its poller with the first file. Open it before counting.
	if r, w, err := os.Pipe(); err == nil {
		r.Close()
		w.Close()
	}
	before := descriptors()
	code := m.Run()
	if code == 0 {
		if leaked := leakedGoroutines(); len(leaked) > 0 {
			fmt.Fprintf(os.Stderr, "leak: the tests left %d goroutines running:\n\n%s\n", len(leaked), bytes.Join(leaked, []byte("\n\n")))
			code = 1
		}
		if after := remainingDescriptors(len(before)); len(after) > len(before) {
			fmt.Fprintf(os.Stderr, "leak: the tests left descriptors open: %v before, %v after\n", before, after)
			code = 1
		}
	}
	os.Exit(code)
}

// leakedGoroutines returns the stacks of the goroutines that still run after grace.
func leakedGoroutines() [][]byte {
	var stacks [][]byte
	untilGrace(func() bool {
		stacks = otherGoroutines()
		return len(stacks) == 0
	})
	return stacks
}

// untilGrace calls done until it returns true or grace has passed.
func untilGrace(done func() bool) {
	deadline := time.NewTimer(grace)
	defer deadline.Stop()
	for !done() {
		select {
		case <-deadline.C:
			return
		default:
			runtime.Gosched()
		}
	}
}

// otherGoroutines returns the stacks of all goroutines but the caller's and those of
// package os/signal.
func otherGoroutines() (stacks [][]byte) {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	for i, stack := range bytes.Split(buf, []byte("\n\n")) {
		// The first stack is the caller's.
		if i > 0 && !bytes.Contains(stack, []byte("os/signal.")) {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}

// remainingDescriptors returns the open descriptors. It collects garbage first if there
// are more than want: package net keeps the pipes of splices in a pool, which closes
// them in a finalizer.
func remainingDescriptors(want int) []string {
	open := descriptors()
	// A finalizer runs some time after the collection that finds the pipe; the pool takes
	// two.
	untilGrace(func() bool {
		if len(open) > want {
			runtime.GC()
			open = descriptors()
		}
		return len(open) <= want
	})
	return open
}

// descriptors returns the numbers of the open descriptors, or nil on a system without
// /proc.
func descriptors() (open []string) {
	dir, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil
	}
	for _, e := range dir {
		open = append(open, e.Name())
	}
	slices.Sort(open)
	return open
}
