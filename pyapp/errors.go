package pyapp

import (
	"errors"
	"strings"
)

// Reasons why a worker cannot start. A *StartError wraps one of them, or another one that its
// text describes; an *Error wraps ErrNoModule or ErrNoAttribute if the called function does not
// exist.
var (
	ErrNoPython     = errors.New("there is no such Python interpreter")
	ErrNotInstalled = errors.New("the package spindle-loop is not installed for this interpreter; install it with: PYTHON -m pip install ./python, in the module github.com/spindleloop/spindle")
	ErrNoModule     = errors.New("there is no such module")
	ErrNoAttribute  = errors.New("the module has no such attribute")
	ErrStartTimeout = errors.New("the worker was not ready in time")
	ErrInterpreters = errors.New("the worker cannot have several interpreters")
	ErrExited       = errors.New("the worker process ended before it was ready")
)

// Further reasons, which programs do not need to tell apart.
var (
	errNoDirectory = errors.New("there is no such directory")
	errNotAnApp    = errors.New("the target is not an ASGI or WSGI app")
	errImport      = errors.New("importing the module failed")
	errLifespan    = errors.New("the startup of the app failed")
)

var (
	// ErrClosed is the error of an App after Shutdown or Close.
	ErrClosed = errors.New("pyapp: the App is closed")

	// ErrCrashed is the error of a call when its worker process ended before the answer. The
	// function may have run.
	ErrCrashed = errors.New("pyapp: the worker process ended before it answered")

	// ErrUnavailable is the error of a call when no worker is ready. It may wrap the
	// *StartError of the last process.
	ErrUnavailable = errors.New("pyapp: no worker is ready")
)

// StartError means that a worker could not start.
type StartError struct {
	Target string // of the App
	Python string // the interpreter
	Reason error  // ErrNoPython, ErrNotInstalled, ErrNoModule and so on
	Text   string // what the worker has reported, for people; it may have several lines
}

func (e *StartError) Error() string {
	var b strings.Builder
	b.WriteString("pyapp: ")
	if e.Target != "" {
		b.WriteString(e.Target + ": ")
	}
	if e.Python != "" && (e.Reason == ErrNoPython || e.Reason == ErrNotInstalled) {
		b.WriteString(e.Python + ": ")
	}
	text := e.Reason.Error()
	if e.Reason == ErrNotInstalled {
		text = strings.Replace(text, "PYTHON", e.Python, 1)
	}
	b.WriteString(text)
	if e.Text != "" {
		b.WriteString(": " + e.Text)
	}
	return b.String()
}

// Unwrap returns the reason.
func (e *StartError) Unwrap() error { return e.Reason }

// Error is an exception that a called function has raised, or the reason why it could not be
// called.
type Error struct {
	Target    string // the function, as module:function
	Type      string // the class of the exception, with its module unless that is builtins
	Message   string // str() of the exception, without its middle if that is longer than 64 KB
	Traceback string // as Python prints it, without the frames of this package

	reason error // ErrNoModule, ErrNoAttribute or nil
}

func (e *Error) Error() string {
	if e.Message == "" {
		return "pyapp: " + e.Target + ": " + e.Type
	}
	return "pyapp: " + e.Target + ": " + e.Type + ": " + e.Message
}

// Unwrap returns ErrNoModule or ErrNoAttribute if the function does not exist, and nil
// otherwise.
func (e *Error) Unwrap() error { return e.reason }

// reasons are the names of reasons in reports of workers.
var reasons = map[string]error{
	"module": ErrNoModule, "attribute": ErrNoAttribute, "app": errNotAnApp, "import": errImport, "lifespan": errLifespan,
	"interpreters": ErrInterpreters,
}
