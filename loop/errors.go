package loop

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"strings"

	"github.com/spindleloop/spindle/internal/goid"
)

var (
	// ErrClosed is returned by calls on a closed loop.
	ErrClosed = errors.New("loop: closed")
	// ErrLost is what the error of Close is if accepted work will never run: callbacks that were scheduled or posted, and jobs
	// that were offloaded. The text of the error names their functions, and counts them.
	ErrLost = errors.New("loop: closed with work left")
	// ErrBusy means that too many jobs wait for a worker; see Options.MaxOffloads.
	ErrBusy = errors.New("loop: too many jobs wait for a worker")
	// ErrGoexit is the Value of a *PanicError for a callback that called
	// runtime.Goexit (as t.FailNow does).
	ErrGoexit = errors.New("runtime.Goexit")
)

// notPollable is an errors.ErrUnsupported: a descriptor can never be waited for. Regular files and directories are always ready.
type notPollable struct{}

func (notPollable) Error() string {
	return "loop: descriptor cannot be polled (a regular file or directory? use Offload)"
}

func (notPollable) Is(target error) bool { return target == errors.ErrUnsupported }

var (
	errRunning    = errors.New("loop: running; Stop it and wait for Run to return")
	errNotWatched = errors.New("loop: descriptor is not watched")
)

// errExists is a descriptor that is watched already. It matches fs.ErrExist.
var errExists = watchExists{}

type watchExists struct{}

func (watchExists) Error() string {
	return "loop: descriptor is watched already (or was closed before its watch was removed)"
}

func (watchExists) Is(target error) bool { return target == fs.ErrExist }

// opError returns err with the operation that failed, and its descriptor.
func opError(op string, fd int, err error) error { return &failure{op, fd, err} }

// failure is an error of an operation.
type failure struct {
	op  string
	fd  int // noFD if the operation has none
	err error
}

func (e *failure) Error() string {
	why := strings.TrimPrefix(e.err.Error(), "loop: ")
	if e.fd == noFD {
		return fmt.Sprintf("loop: %s: %s", e.op, why)
	}
	return fmt.Sprintf("loop: %s: fd %d: %s", e.op, e.fd, why)
}

// noFD is the FD of an operation that has none. It is not -1, which users pass.
const noFD = math.MinInt

func (e *failure) Unwrap() error { return e.err }

// PanicError is a panic, or a runtime.Goexit, that was caught in a callback or in offloaded
// work.
type PanicError struct {
	Value any    // of the panic; ErrGoexit for runtime.Goexit
	Stack []byte // of the goroutine that panicked, as debug.Stack prints it
	Also  error  // what else failed at the same time; nil nearly always

	again bool // Error prints Stack too
}

// Repanic panics with a copy of e. If nothing recovers that, Go prints its text as the
// program ends. So the text of the copy includes Stack: Go itself prints only the stack
// of the caller of Repanic, which does not show the cause.
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

// place returns where the panic happened: the first frame of the stack after the panic
// that is not of the runtime. If that frame is in this library, the cause is usually in
// the calling code, so place adds the line from which the library was called.
func (e *PanicError) place() string {
	lines := strings.Split(string(e.Stack), "\n")
	panicked, at := false, ""
	for i := 0; i+1 < len(lines); i++ {
		function := lines[i]
		if strings.HasPrefix(function, "\t") {
			continue
		}
		if strings.HasPrefix(function, "created by ") {
			break
		}
		ofRuntime := strings.HasPrefix(function, "panic(") || strings.HasPrefix(function, "runtime.")
		if panicked && !ofRuntime {
			file, _, _ := strings.Cut(strings.TrimSpace(lines[i+1]), " ")
			switch ours := goid.OfLibrary(function); {
			case at == "" && !ours:
				return " at " + path.Base(file)
			case at == "":
				at = " at " + path.Base(file)
			case !ours && !between(function):
				return at + ", called at " + path.Base(file)
			}
		}
		panicked = panicked || strings.HasPrefix(function, "panic(") || strings.HasPrefix(function, "runtime.Goexit(")
	}
	return at
}

// between reports whether a function belongs to a package of the standard library that is
// called by this library and calls its users, or that runs both.
func between(function string) bool {
	for _, name := range []string{"net/http.", "io.", "bufio.", "fmt.", "crypto/tls.", "iter.", "internal/"} {
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
