package pyapp

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// SetGrace sets how long a worker may take to end after it was told to cancel what it does.
func SetGrace(d time.Duration) { grace = d }

// Pids returns the process IDs of the workers that take requests.
func Pids(a *App) (pids []int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.ready {
		pids = append(pids, w.process.Pid())
	}
	return pids
}

// Active returns how many requests and calls run.
func Active(a *App) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.all {
		n += w.active
	}
	return n
}

// Unsent returns how many frames wait for the first worker of an App.
func Unsent(a *App) int {
	a.mu.Lock()
	w := a.all[0]
	a.mu.Unlock()
	return w.out.waiting.Statistics().Used
}

// Waits returns how many goroutines wait for a change of an App: Shutdown does, for the end of the workers.
func Waits(a *App) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.waiters)
}

// Supervised reports whether an App has begun to start its workers.
func Supervised(a *App) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.s != nil || a.state == closed
}

// CallDuringDrain calls a function in the first worker of an App that takes no more calls.
func CallDuringDrain(ctx context.Context, a *App, target string, arg string) {
	a.mu.Lock()
	w := a.all[0]
	a.mu.Unlock()
	in, err := a.arguments(target, []any{arg})
	if err != nil {
		panic(err)
	}
	_, _ = w.call(ctx, in)
}

// StartWhileClosing starts a worker of an App that Shutdown has begun to close, and returns
// the error.
func StartWhileClosing(a *App) error {
	set := func(to state) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.state = to
	}
	a.mu.Lock()
	l, s := a.l, a.s
	a.mu.Unlock()
	failed := make(chan error, 1)
	_ = l.Post(func() {
		s.n.Go(func(ctx context.Context) error {
			set(closing)
			_, err := s.start(ctx)
			set(running)
			failed <- err
			return nil
		})
	})
	return <-failed
}

// CallInto is Call with a pointer for the result.
func CallInto(ctx context.Context, a *App, target string, result any, args ...any) error {
	answer, err := a.call(ctx, target, args)
	if err != nil {
		return err
	}
	return answer.decode(result)
}

// MakeQuick makes a Go function count as quick.
func MakeQuick(a *App, name string) { paceOf(a, name).quick.Store(quickCalls) }

// IsQuick reports whether a Go function counts as quick.
func IsQuick(a *App, name string) bool { return paceOf(a, name).isQuick() }

func paceOf(a *App, name string) *pace {
	a.mu.Lock()
	defer a.mu.Unlock()
	return &a.functions[name].pace
}

// Allow returns how many items a stream may have, if it was from, and Python accepts n.
func Allow(from, n uint32) uint32 {
	f := newFlow(nil, from)
	f.allow(n)
	return f.allowed.Load()
}

// Outlet writes frames to a pipe, as to a worker.
type Outlet struct{ o *outlet }

// NewOutlet returns an Outlet that writes until Close, in goroutines of wg.
func NewOutlet(to *os.File, wg *sync.WaitGroup) Outlet {
	o := newOutlet(to)
	wg.Go(func() { o.write(func(*accepted) bool { return false }) })
	wg.Go(o.writeLate)
	return Outlet{o}
}

// Put sends a frame, which may wait.
func (o Outlet) Put(ctx context.Context, head, body []byte) error {
	return o.o.put(ctx, frame{head: head, body: body})
}

// Post sends a small frame without waiting.
func (o Outlet) Post(head []byte) { o.o.post(frame{head: head}) }

// Unsent returns how many frames wait, or are being written by the goroutines.
func (o Outlet) Unsent() int {
	o.o.mu.Lock()
	defer o.o.mu.Unlock()
	return o.o.unsent
}

// Close ends the goroutines, if the pipe is closed too.
func (o Outlet) Close() { o.o.close() }

// CutCall decodes the body of a call without the codec. It reports false for a body that is left to the codec.
func CutCall(body []byte) (name string, args []cbor.RawMessage, ok bool) {
	var c call
	ok = c.cut(body)
	return c.Name, c.Args, ok
}

// DecodeCall decodes the body of a call with the codec.
func DecodeCall(body []byte) (name string, args []cbor.RawMessage, err error) {
	var c call
	err = decoding.Unmarshal(body, &c)
	return c.Name, c.Args, err
}

// Reasons of an ErrStart.
var (
	ErrNoPython     = errNoPython
	ErrNotInstalled = errNotInstalled
	ErrNoModule     = errNoModule
	ErrNoAttribute  = errNoAttribute
	ErrStartTimeout = errStartTimeout
	ErrInterpreters = errInterpreters
	ErrExited       = errExited
	ErrNoDescriptor = errNoDescriptor
	ErrNoDirectory  = errNoDirectory
	ErrNotAnApp     = errNotAnApp
	ErrImport       = errImport
	ErrLifespan     = errLifespan
)
