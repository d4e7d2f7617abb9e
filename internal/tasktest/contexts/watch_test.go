package contexts_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// watchers are goroutines that check contexts.
type watchers struct {
	t        *testing.T
	over     atomic.Bool
	shown    [64]atomic.Pointer[seen]
	contexts atomic.Int64
	checks   atomic.Int64

	pending sync.WaitGroup // functions that are to be called, or to be stopped
	called  atomic.Int64
}

// seen is a context, and how it was first seen to have ended.
type seen struct {
	context.Context
	mu         sync.Mutex
	err, cause error
}

// publish gives a context to the goroutines.
func (w *watchers) publish(ctx context.Context) *seen {
	s := &seen{Context: ctx}
	w.shown[w.contexts.Add(1)%int64(len(w.shown))].Store(s)
	return s
}

// watch checks random contexts until the programs have ended.
func (w *watchers) watch(r *rand.Rand) {
	for !w.over.Load() && !w.t.Failed() {
		if s := w.shown[r.IntN(len(w.shown))].Load(); s != nil {
			w.look(s)
			w.derive(r, s)
			w.look(s)
		}
	}
}

// look checks the laws for one context.
func (w *watchers) look(s *seen) {
	w.checks.Add(1)
	s.Deadline()
	if isDone(s) && s.Err() == nil {
		w.t.Error("Done is closed, but Err is nil")
	}
	err := s.Err()
	if err == nil {
		s.mu.Lock()
		first := s.err
		s.mu.Unlock()
		// The first may have been seen after err.
		if first != nil && s.Err() == nil {
			w.t.Errorf("un-cancelled after %v", first)
		}
		return
	}
	if !isDone(s) {
		w.t.Errorf("Err is %v, but Done is not closed", err)
	}
	cause := context.Cause(s.Context)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err, s.cause = err, cause
	}
	if err != s.err || cause != s.cause || cause == nil {
		w.t.Errorf("ended with %v and the cause %v, before with %v and %v", err, cause, s.err, s.cause)
	}
}

func isDone(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

// derive derives a context, and checks that it ends with its parent.
func (w *watchers) derive(r *rand.Rand, s *seen) {
	if r.IntN(2) == 0 { // behind a value the context package knows a context less well
		s = &seen{Context: context.WithValue(s.Context, contextKey("b"), 1)}
	}
	derived, cancel := context.WithCancel(s.Context)
	defer cancel()
	if r.IntN(2) == 0 {
		derived, cancel = context.WithTimeout(s.Context, time.Hour)
		defer cancel()
	}
	var mu sync.Mutex
	mu.Lock() // what is registered is not called by the one that registers it
	w.pending.Add(1)
	stop := context.AfterFunc(s.Context, func() {
		mu.Lock()
		defer mu.Unlock()
		if s.Err() == nil {
			w.t.Error("called before the end")
		}
		w.called.Add(1)
		w.pending.Done() // once: twice panics
	})
	mu.Unlock()
	if r.IntN(4) == 0 && stop() {
		w.pending.Done()
	}
	child := &seen{Context: derived}
	w.look(child)
	if r.IntN(16) == 0 || s.Err() != nil { // every scope is left in the end
		<-derived.Done()
		if derived.Err() != s.Err() || context.Cause(derived) != context.Cause(s.Context) {
			w.t.Errorf("derived: %s; from: %s", account(derived), account(s))
		}
		w.look(child)
	}
}
