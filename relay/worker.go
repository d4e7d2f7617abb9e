package relay

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/spindleloop/spindle"
)

// Worker serves subjects of a Bus. Make one with NewWorker. Any goroutine may use it.
type Worker struct {
	bus Bus

	mu       sync.Mutex
	services []*service  // that run, or have handlers that do; guarded by mu
	past     WorkerStats // of other services; guarded by mu
}

// WorkerStats are counts of a Worker since it was made. A request that was taken from the
// bus is counted in Running, Finished, or one of the fields of requests that did not start.
type WorkerStats struct {
	Running  int    // handlers
	Finished uint64 // handlers that have returned or panicked, and requests that were Replayed
	Failed   uint64 // finished with an error
	Panics   uint64 // finished with a panic
	Canceled uint64 // finished after their caller had cancelled them

	// Requests that did not start.
	Expired   uint64 // their deadline had passed
	Revoked   uint64 // cancelled before
	Duplicate uint64 // already running
	Unknown   uint64 // not requests, but replies or other messages that were sent to the subject

	Replayed    uint64 // answered from ServeOptions.Results; also in Finished
	RepliesLost uint64 // the bus did not take the reply
	Forgotten   uint64 // cancellations of requests that did not come in time
}

// ServeOptions configures Worker.Serve.
type ServeOptions struct {
	// Group is the queue group. Each request goes to one worker of the group. "" means
	// "workers".
	Group string

	// Concurrency is how many handlers run at a time. Further requests stay in the queue
	// of the bus. Zero means 64.
	Concurrency int

	// InTasks makes handlers run in tasks of the loop that Serve is called on, and then
	// they must not block. Otherwise they run on goroutines, and may.
	InTasks bool

	// Ready, if set, is called once, when requests reach the worker.
	Ready func()

	// Results keeps replies by the header IdempotencyKey. If it has the reply for the key of
	// a request, the request is answered without the handler. While a request with a key runs,
	// another one in this worker fails with the code "duplicate". Errors are not kept. Items of a stream
	// are kept with its reply, up to 16 MB. Nil means that keys have no effect.
	Results Results

	// Retry decides what becomes of a request when its handler has failed with err, if the bus
	// redelivers: whether it is delivered again, and after which time. A time of zero means the
	// pause of the bus. The bus limits the attempts. If Retry is nil, a request is delivered
	// again if err wraps ErrRetry.
	Retry func(r *Request, err error) (again bool, after time.Duration)

	// Drain is how long Serve waits for running handlers when it is stopped. After that
	// their contexts end, and Serve waits as long again. Zero means 10 seconds.
	Drain time.Duration

	// ErrorLog gets panics of handlers, with their stacks, and errors that reach no caller:
	// of requests without a ReplyTo, and of attempts that fail with ErrRetry. Nil means
	// slog.Default().
	ErrorLog *slog.Logger
}

// NewWorker makes a Worker.
func NewWorker(bus Bus) *Worker {
	if bus == nil {
		panic("relay: NewWorker: nil bus")
	}
	return &Worker{bus: bus}
}

// Serve calls h for requests of a subject until ctx ends. Then it takes no more, waits for
// the handlers that run, and fails with the error of ctx. If handlers do not return in time after
// their contexts have ended, the error says how many: on goroutines they still run, and with
// InTasks Serve waits until they have returned, because they are its tasks. It also returns when the bus closes.
// A handler that panics ends its own call only. Each handler has a span of the tracer of ctx;
// see spindle.WithTracer.
func (w *Worker) Serve(ctx context.Context, subject string, h Handler, o ServeOptions) error {
	if ctx == nil {
		panic("relay: Serve: nil context")
	}
	if h == nil {
		panic("relay: Serve with a nil handler")
	}
	if o.Concurrency < 0 || o.Drain < 0 {
		panic("relay: Serve with a negative limit")
	}
	if o.InTasks && spindle.Current(ctx) == nil {
		panic("relay: Serve with InTasks must be called in a task, with the task's context")
	}
	if o.Group == "" {
		o.Group = "workers"
	}
	if o.Concurrency == 0 {
		o.Concurrency = 64
	}
	if o.Drain == 0 {
		o.Drain = 10 * time.Second
	}
	s := newService(ctx, w.bus, subject, h, o)
	defer s.close()
	if err := s.open(ctx); err != nil {
		return fmt.Errorf("relay: Serve %s: %w", subject, err)
	}
	if o.Ready != nil {
		o.Ready()
	}
	w.mu.Lock()
	w.services = append(w.services, s)
	w.mu.Unlock()
	defer s.visible()()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		s.returned = true
		w.forgetEnded()
	}()
	if o.InTasks {
		return s.serveInTasks(ctx)
	}
	return s.serveOnGoroutines(ctx)
}

// forgetEnded adds the counts of services that have ended to past. One with stragglers ends after
// its Serve. The caller holds w.mu.
func (w *Worker) forgetEnded() {
	w.services = slices.DeleteFunc(w.services, func(s *service) bool {
		if !s.returned || !s.hasEnded() {
			return false
		}
		w.past.add(s.counts())
		return true
	})
}

// Stats returns the counts of the worker.
func (w *Worker) Stats() WorkerStats {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forgetEnded()
	all := w.past
	for _, s := range w.services {
		all.add(s.counts())
	}
	return all
}

func (a *WorkerStats) add(b WorkerStats) {
	a.Running += b.Running
	a.Finished += b.Finished
	a.Failed += b.Failed
	a.Panics += b.Panics
	a.Canceled += b.Canceled
	a.Expired += b.Expired
	a.Revoked += b.Revoked
	a.Duplicate += b.Duplicate
	a.Unknown += b.Unknown
	a.Replayed += b.Replayed
	a.RepliesLost += b.RepliesLost
	a.Forgotten += b.Forgotten
}
