package pyapp

import (
	"errors"
	"strings"
)

// Reasons why a worker cannot start. They are texts for people: no program decides by them.
var (
	errNoPython     = errors.New("there is no such Python interpreter; set App.Python or $VIRTUAL_ENV")
	errNotInstalled = errors.New("the package spindle-loop is not installed for this interpreter; install it with: PYTHON -m pip install ./python, in the module github.com/spindleloop/spindle")
	errNoModule     = missing("there is no such module")
	errNoAttribute  = missing("the module has no such attribute")
	errNoDirectory  = errors.New("there is no such directory")
	errNotAnApp     = errors.New("the target is not an ASGI or WSGI app")
	errImport       = errors.New("importing the module failed")
	errLifespan     = errors.New("the startup of the app failed")
	errStartTimeout = errors.New("the worker was not ready in time")
	errInterpreters = errors.New("the worker cannot have several interpreters")
	errExited       = errors.New("the worker process ended before it was ready")
)

// missing is a reason that is ErrNotFound.
type missing string

func (m missing) Error() string        { return string(m) }
func (m missing) Is(target error) bool { return target == ErrNotFound }

var (
	// ErrClosed is the error of an App after Shutdown or Close.
	ErrClosed = errors.New("pyapp: the App is closed")

	// ErrCrashed is the error of a call when its worker process ended before the answer. The
	// function may have run.
	ErrCrashed = errors.New("pyapp: the worker process ended before it answered")

	// ErrUnavailable is the error of a call when no worker is ready. It may wrap the
	// *StartError of the last process.
	ErrUnavailable = errors.New("pyapp: no worker is ready")

	// ErrNotFound is wrapped by the *Error of a call, and by the *StartError of an App, if Python
	// has no such module, or the module no such attribute.
	ErrNotFound = errors.New("pyapp: there is no such module or attribute")
)

// StartError means that a worker could not start. Its text says why.
type StartError struct {
	Target string // of the App
	Python string // the interpreter
	Reason error  // why
	Text   string // what the worker has reported, for people; it may have several lines
}

func (e *StartError) Error() string {
	var b strings.Builder
	b.WriteString("pyapp: ")
	if e.Target != "" {
		b.WriteString(e.Target + ": ")
	}
	if e.Python != "" && (e.Reason == errNoPython || e.Reason == errNotInstalled) {
		b.WriteString(e.Python + ": ")
	}
	switch e.Reason {
	case errNoModule, errNoAttribute, errNotAnApp, errImport:
		if e.Text != "" { // it says the same, with the names
			b.WriteString(e.Text)
			return b.String()
		}
	}
	text := e.Reason.Error()
	if e.Reason == errNotInstalled {
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

	reason error // errNoModule, errNoAttribute or nil
}

func (e *Error) Error() string {
	if e.Message == "" {
		return "pyapp: " + e.Target + ": " + e.Type
	}
	return "pyapp: " + e.Target + ": " + e.Type + ": " + e.Message
}

// Unwrap returns an error that is ErrNotFound if the function does not exist, and nil otherwise.
func (e *Error) Unwrap() error { return e.reason }

// reasons are the names of reasons in reports of workers.
var reasons = map[string]error{
	"module": errNoModule, "attribute": errNoAttribute, "app": errNotAnApp, "import": errImport, "lifespan": errLifespan,
	"interpreters": errInterpreters,
}
