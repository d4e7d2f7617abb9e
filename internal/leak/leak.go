// Package leak fails a package's tests if they leave goroutines or file
// descriptors behind.
package leak

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"
)

// grace is how long goroutines that are about to end may take for it.
const grace = 5 * time.Second

// Main runs the tests and exits. Call it from TestMain.
func Main(m *testing.M) {
	// The runtime opens its own poller with the first file; let that be now.
	if r, w, err := os.Pipe(); err == nil {
		r.Close()
		w.Close()
	}
	before := descriptors()
	code := m.Run()
	if code == 0 {
		if left := goroutines(); len(left) > 0 {
			fmt.Fprintf(os.Stderr, "leak: %d goroutines left behind:\n\n%s\n", len(left), bytes.Join(left, []byte("\n\n")))
			code = 1
		}
		if left := descriptors(); len(left) > len(before) {
			fmt.Fprintf(os.Stderr, "leak: descriptors %v before the tests, %v after\n", before, left)
			code = 1
		}
	}
	os.Exit(code)
}

// goroutines are those that are not the tests' own and do not go away.
func goroutines() [][]byte {
	deadline := time.NewTimer(grace)
	defer deadline.Stop()
	for {
		left := strangers()
		if len(left) == 0 {
			return nil
		}
		select {
		case <-deadline.C:
			return left
		default:
			runtime.Gosched()
		}
	}
}

func strangers() (left [][]byte) {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	for i, stack := range bytes.Split(buf, []byte("\n\n")) {
		// The first is this one.
		if i > 0 && !bytes.Contains(stack, []byte("os/signal.")) && !bytes.Contains(stack, []byte("testing.")) {
			left = append(left, stack)
		}
	}
	return left
}

// descriptors are the numbers of the open ones, none where the system does not
// tell.
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
