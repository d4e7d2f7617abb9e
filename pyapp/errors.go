package pyapp

import (
	"errors"
	"os"
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
	// ErrCrashed is the error of a call when its worker process ended before the answer. The
	// function may have run.
	ErrCrashed = errors.New("pyapp: the worker process ended before it answered")

	// ErrUnavailable is the error of a call when no worker is ready. It may wrap the
	// error of the last process, which is ErrStart.
	ErrUnavailable = errors.New("pyapp: no worker is ready")

	// ErrStart is what an error wraps if a worker could not start. The text of the error says why: no interpreter, no such
	// directory, the package is not installed, an exception while the app was imported.
	ErrStart = errors.New("pyapp: a worker cannot start")

	// ErrNotFound is wrapped by the *Error of a call, and by an error that is ErrStart, if Python
	// has no such module, or the module no such attribute.
	ErrNotFound = errors.New("pyapp: there is no such module or attribute")
)

// errClosed is the error of an App after Shutdown or Close.
var errClosed error = closedError{}

// closedError is an os.ErrClosed.
type closedError struct{}

func (closedError) Error() string        { return "pyapp: the App is closed" }
func (closedError) Is(target error) bool { return target == os.ErrClosed }

// startError is an ErrStart.
type startError struct {
	target string // of the App
	python string // the interpreter
	reason error  // why
	text   string // what the worker has reported, for people; it may have several lines
}

func (e *startError) Error() string {
	var b strings.Builder
	b.WriteString("pyapp: ")
	if e.target != "" {
		b.WriteString(e.target + ": ")
	}
	if e.python != "" && (e.reason == errNoPython || e.reason == errNotInstalled) {
		b.WriteString(e.python + ": ")
	}
	switch e.reason {
	case errNoModule, errNoAttribute, errNotAnApp, errImport:
		if e.text != "" { // it says the same, with the names
			b.WriteString(e.text)
			return b.String()
		}
	}
	text := e.reason.Error()
	if e.reason == errNotInstalled {
		text = strings.Replace(text, "PYTHON", e.python, 1)
	}
	b.WriteString(text)
	if e.text != "" {
		b.WriteString(": " + e.text)
	}
	return b.String()
}

// Unwrap returns ErrStart and the reason.
func (e *startError) Unwrap() []error { return []error{ErrStart, e.reason} }

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
