// Package pyapp runs Python inside a Go program: ASGI and WSGI apps as http.Handlers, Python
// functions as calls, and Python protocols for connections that the program accepts; see
// ServeConn. Python can call Go functions, too; see Handle. Python runs in worker processes, so
// the program needs no cgo, and a crash of Python does not end it.
//
//	app := &pyapp.App{Dir: "service", Target: "main:app", Workers: 2}
//	defer app.Close()
//	mux.Handle("/api/", http.StripPrefix("/api", app))
//
//	score, err := pyapp.Call[float64](ctx, app, "model:score", "some text")
//
// Python needs the package spindle-loop, from the directory python of this module. Each
// worker is like a "python -m spindle" with one process: the app behaves as it does there,
// with its lifespan, streams and WebSockets.
//
// # Requests
//
// A request goes to the worker with the fewest running requests. The app gets the request as
// it came: path, headers, and the address of the client, from http.Request.RemoteAddr. What
// http.StripPrefix has removed from the path is the app's root_path, so that URLs the app
// makes are right. The app believes X-Forwarded-For and X-Forwarded-Proto if RemoteAddr is a
// trusted proxy; see the option --forwarded-allow-ips of python -m spindle, and Args.
//
// When the client disconnects or the context of the request ends, the app receives
// http.disconnect. Request and response are streamed, both at the same time if need be. What
// the app sends is flushed when nothing follows at once.
//
// # Failures
//
// If a worker process ends, its requests are answered with 502, or cut if the response has
// begun. They are not repeated, because they may be the reason. Other requests go to the
// other workers, or wait for a new one. A new process starts after 100 milliseconds, and if
// processes end soon after their start, after a growing pause. While no worker can start, requests
// are answered with 503. A request that exceeds the deadline of its context is answered with 504.
//
// # Goroutines
//
// All functions may be called from any goroutine. Call, Stream, ServeConn, Start, Shutdown and
// Restart may also be called in tasks, which wait without blocking their loop. An App serves on
// goroutines: with package web, do not mark it with web.Inline. An App supervises its processes on
// a loop of its own.
package pyapp

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/loop"
)

// App is a Python program in worker processes. It serves HTTP requests with the program's app, and
// calls its functions. The fields must not be changed after the first use of a method. An App
// must not be copied.
type App struct {
	// Dir is the working directory of the workers, and the directory that their modules are
	// imported from. Empty means that of this process.
	Dir string

	// Target names the app: "module:attribute", or a Python file. If it is empty, the App is
	// for calls and connections only, and ServeHTTP panics.
	Target string

	// Workers is the number of processes. Zero means 1.
	Workers int

	// Interpreters is the number of Python interpreters in each process, each with its own GIL.
	// More than one need CPython 3.13. They take less memory than as many processes, and a crash
	// ends all of them. All serve requests; the first one also has the functions and
	// connections. With WSGI apps, and with extension modules that refuse subinterpreters, such
	// as pydantic's, Start fails with ErrStart: use Workers instead. Zero means 1.
	Interpreters int

	// Python is the interpreter: a path, or a name that is looked up in $PATH. Empty means
	// bin/python in $VIRTUAL_ENV if that is set, and python3 otherwise.
	Python string

	// Args are further options of python -m spindle, such as "--factory" or
	// "--wsgi-threads=8". The access log is off unless "--access-log" turns it on. Options
	// that concern sockets, processes and time-outs of connections have no effect.
	Args []string

	// Env is the environment of the workers. Nil means that of this process.
	Env []string

	// Stderr receives the standard output and the standard error of the workers. Nil means
	// os.Stderr. Writes to it must not block for long.
	Stderr io.Writer

	// StartTimeout limits the time from the start of a process until it serves, including
	// the startup of the app's lifespan. It also limits how long a request or a call
	// waits for a worker. Zero means 30 seconds.
	StartTimeout time.Duration

	// DrainTimeout limits how long Close waits for running requests and calls, and how long
	// a worker that Restart replaces may take to finish. Zero means 10 seconds.
	DrainTimeout time.Duration

	// MaxCallBytes limits the size of a call's arguments, of its result, and of an item of a
	// stream, as CBOR. Zero means 16 MB.
	MaxCallBytes int

	// MaxGoCalls limits how many calls of Go functions run at a time; see Handle. Further ones
	// wait. Calls that a Go function causes by calling Python are counted separately. Zero means
	// 1,024.
	MaxGoCalls int

	// CallThreads is the number of threads of a worker for calls of functions that are not
	// coroutine functions. Further calls of such functions wait; calls of coroutine functions do
	// not. Calls that a Go function makes while Python waits for it have as many threads of
	// their own. Zero means 32.
	CallThreads int

	// MaxMemory limits the address space of each worker in bytes. Python raises MemoryError when
	// it asks for more; a worker that cannot continue then ends, as in a crash. The address space
	// is larger than the memory that is used: a worker without an app has about 2 GB of it, and
	// each thread adds to it. MaxMemory needs a shell with "ulimit -v", which macOS lacks. Zero
	// means no limit.
	MaxMemory int64

	// ErrorLog is the logger for processes that end or cannot be started. Nil means
	// slog.Default().
	ErrorLog *slog.Logger

	mu      sync.Mutex // guards what follows
	state   state
	l       *loop.Loop         // of the supervisor; nil until it runs
	s       *supervisor        // nil until it runs
	cancel  context.CancelFunc // ends the supervisor and kills its processes
	ready   []*worker          // those that take requests
	all     []*worker          // those with a process that runs
	failure error              // why the last process could not start; nil if it did
	waiters []*waiter

	functions map[string]*function  // that Python can call
	limits    map[int]chan struct{} // of calls of Go functions, by their depth
	hosting   int                   // goroutines that run for Python, or for the pipes of its processes
}

// state is what an App does.
type state uint8

const (
	unused  state = iota // nothing was started
	running              // the supervisor runs
	closing              // Shutdown was called
	closed               // all processes have ended
)

// waiter is a wait for a change of an App.
type waiter = cosync.Inbox[struct{}]

// changed ends the waits. It is called with a.mu held.
func (a *App) changed() {
	for _, w := range a.waiters {
		_ = w.TryPut(struct{}{}) // a full inbox has a signal already
	}
}

// wait waits until done reports true or ctx ends. It calls done with a.mu held, which is held again
// when wait returns nil.
func (a *App) wait(ctx context.Context, done func() bool) error {
	a.mu.Lock()
	if done() {
		return nil
	}
	own := cosync.NewInbox[struct{}](1)
	a.waiters = append(a.waiters, own)
	for {
		a.mu.Unlock()
		_, err := own.Get(ctx)
		a.mu.Lock()
		if err != nil {
			a.forget(own)
			a.mu.Unlock()
			return err
		}
		if done() {
			a.forget(own)
			return nil
		}
	}
}

func (a *App) forget(own *waiter) {
	for i, w := range a.waiters {
		if w == own {
			last := len(a.waiters) - 1
			a.waiters[i], a.waiters[last] = a.waiters[last], nil
			a.waiters = a.waiters[:last]
			return
		}
	}
}

func (a *App) workers() int                { return max(a.Workers, 1) }
func (a *App) startTimeout() time.Duration { return orDefault(a.StartTimeout, 30*time.Second) }
func (a *App) drainTimeout() time.Duration { return orDefault(a.DrainTimeout, 10*time.Second) }
func (a *App) maxCallBytes() int           { return orDefault(a.MaxCallBytes, 16<<20) }
func (a *App) callThreads() int            { return orDefault(a.CallThreads, 32) }
func (a *App) maxGoCalls() int             { return orDefault(a.MaxGoCalls, 1024) }

func (a *App) log() *slog.Logger {
	if a.ErrorLog != nil {
		return a.ErrorLog
	}
	return slog.Default()
}

func orDefault[T time.Duration | int](value, otherwise T) T {
	if value > 0 {
		return value
	}
	return otherwise
}
