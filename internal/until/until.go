// Package until waits for conditions in tests. A condition that does not become true within
// [Limit] fails the test, with the line of source that waited for it.
package until

import (
	"context"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
)

// Limit is longer than a busy machine needs: only a test that would hang waits that long.
const Limit = 2 * time.Minute

// Holds waits on a goroutine until condition returns true. It checks every millisecond: use it
// if there is no event to wait for.
func Holds(t testing.TB, condition func() bool) {
	t.Helper()
	if !Tried(condition) {
		t.Fatalf("not within %v: %s", Limit, caller())
	}
}

// Tried is Holds for tests that report the failure themselves. It reports whether condition returned
// true.
func Tried(condition func() bool) bool {
	for began := time.Now(); !condition(); time.Sleep(time.Millisecond) {
		if time.Since(began) > Limit {
			return false
		}
	}
	return true
}

// InTask lets other tasks run until condition returns true.
func InTask(ctx context.Context, t testing.TB, condition func() bool) {
	t.Helper()
	for began := time.Now(); !condition(); {
		if time.Since(began) > Limit {
			t.Fatalf("not within %v: %s", Limit, caller())
		}
		if err := spindle.Yield(ctx); err != nil {
			t.Fatalf("%v: %s", err, caller())
		}
	}
}

// OnLoop waits on a goroutine until condition, which is called on l, returns true.
func OnLoop(t testing.TB, l *loop.Loop, condition func() bool) {
	t.Helper()
	holds := make(chan bool, 1)
	var check func()
	check = func() {
		if condition() {
			holds <- true
			return
		}
		l.CallLater(time.Millisecond, check)
	}
	if err := l.Post(check); err != nil {
		t.Fatalf("%v: %s", err, caller())
	}
	ctx, cancel := context.WithTimeout(context.Background(), Limit)
	defer cancel()
	select {
	case <-holds:
	case <-ctx.Done():
		t.Fatalf("not within %v: %s", Limit, caller())
	}
}

// caller returns the line of source that called the caller of caller.
func caller() string {
	_, file, line, _ := runtime.Caller(2)
	source, err := os.ReadFile(file)
	if err != nil {
		return "the condition"
	}
	lines := strings.Split(string(source), "\n")
	return strings.TrimSpace(lines[min(line, len(lines))-1])
}
