package loop

import (
	"errors"
	"fmt"
	"math"
	"path"
	"reflect"
	"strings"
)

var (
	// ErrClosed says that the loop was closed.
	ErrClosed = errors.New("loop: closed")
	// ErrRunning says that the loop is running and the call must wait until
	// it does not.
	ErrRunning = errors.New("loop: running; Stop it and wait for Run to return")
	// ErrExists says that a descriptor is watched already. If it should not
	// be, it was closed before the watch was removed, and its number reused.
	ErrExists = errors.New("loop: descriptor is watched already (or was closed before its watch was removed)")
	// ErrNotWatched says that a watch was cancelled, or never was.
	ErrNotWatched = errors.New("loop: descriptor is not watched")
	// ErrNotPollable says that a descriptor can never be waited for: regular
	// files and directories are always ready. Read them by Offload.
	ErrNotPollable = errors.New("loop: descriptor cannot be polled (a regular file or directory? use Offload)")
	// ErrBusy says that too many jobs wait for a worker.
	ErrBusy = errors.New("loop: too many jobs wait for a worker")
	// ErrGoexit is the Value of a *PanicError for a callback that called
	// runtime.Goexit (as t.FailNow does).
	ErrGoexit = errors.New("runtime.Goexit")
)

// OpError tells which operation failed, and on which descriptor.
type OpError struct {
	Op  string
	FD  int // the smallest int where there is none
	Err error
}

func (e *OpError) Error() string {
	why := strings.TrimPrefix(e.Err.Error(), "loop: ")
	if e.FD == noFD {
		return fmt.Sprintf("loop: %s: %s", e.Op, why)
	}
	return fmt.Sprintf("loop: %s: fd %d: %s", e.Op, e.FD, why)
}

// noFD is the FD of an operation that has none. It is not -1, which users pass.
const noFD = math.MinInt

// Unwrap returns the cause.
func (e *OpError) Unwrap() error { return e.Err }

// PanicError is a panic, or a runtime.Goexit, caught in a callback or in
// offloaded work.
type PanicError struct {
	Value any    // what was panicked with; ErrGoexit for runtime.Goexit
	Stack []byte // of the goroutine that panicked, as debug.Stack prints it
	Also  error  // what else failed at the same time; nil nearly always

	again bool // Error prints Stack too
}

// Repanic panics with a copy of e. If nothing recovers that, Go prints its text as the
// program ends. So the text of the copy includes Stack: what Go prints by itself is the
// stack of the caller of Repanic, which is not to blame.
func (e *PanicError) Repanic() {
	again := *e
	again.again = true
	panic(&again)
}

func (e *PanicError) Error() string {
	text := "loop: runtime.Goexit called" + e.place()
	if e.Value != ErrGoexit {
		text = fmt.Sprintf("loop: panic%s: %v", e.place(), e.Value)
	}
	if e.Also != nil {
		text += "\nbesides: " + e.Also.Error()
	}
	if e.again {
		text += "\n\n" + string(e.Stack)
	}
	return text
}

// place is where it happened, by the stack: the first frame behind that of the
// panic which is not the runtime's. If that is in this module, it is as a rule
// somebody else's mistake, and the place is told too from which the module was
// called.
func (e *PanicError) place() string {
	lines := strings.Split(string(e.Stack), "\n")
	behind, at := false, ""
	for i := 0; i+1 < len(lines); i++ {
		function := lines[i]
		if strings.HasPrefix(function, "\t") {
			continue
		}
		if strings.HasPrefix(function, "created by ") {
			break
		}
		thrower := strings.HasPrefix(function, "panic(") || strings.HasPrefix(function, "runtime.")
		if behind && !thrower {
			file, _, _ := strings.Cut(strings.TrimSpace(lines[i+1]), " ")
			switch ours := inside(function) && !strings.Contains(file, "_test.go:"); {
			case at == "" && !ours:
				return " at " + path.Base(file)
			case at == "":
				at = " at " + path.Base(file)
			case !ours && !between(function):
				return at + ", called at " + path.Base(file)
			}
		}
		behind = behind || strings.HasPrefix(function, "panic(") || strings.HasPrefix(function, "runtime.Goexit(")
	}
	return at
}

// inside tells whether a function of a stack is one of this module.
func inside(function string) bool {
	rest, ok := strings.CutPrefix(function, strings.TrimSuffix(reflect.TypeFor[Loop]().PkgPath(), "/loop"))
	return ok && (strings.HasPrefix(rest, "/") || strings.HasPrefix(rest, "."))
}

// between tells whether a function is of the standard library and stands between
// this module and its users, or below both.
func between(function string) bool {
	for _, name := range []string{"net/http.", "io.", "bufio.", "fmt.", "crypto/tls.", "iter.", "testing.", "internal/"} {
		if strings.HasPrefix(function, name) {
			return true
		}
	}
	return false
}

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
