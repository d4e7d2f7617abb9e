package retention_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// load is what an operation refers to, by its function, its context and its data.
type load struct{ data [64 << 10]byte }

// loadKey is the context key of a load.
type loadKey struct{}

// watch knows objects that must be collected.
type watch struct {
	keep []any // stays in use, and must not keep the others

	mu   sync.Mutex
	left map[string][]func() bool // guarded by mu
}

// follow makes w watch the object that p points to or into.
func follow[T any](w *watch, name string, p *T) *T {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left == nil {
		w.left = make(map[string][]func() bool)
	}
	at := weak.Make(p)
	w.left[name] = append(w.left[name], func() bool { return at.Value() != nil })
	return p
}

// load returns a load that w watches.
func (w *watch) load(name string) *load { return follow(w, name, &load{}) }

// with returns ctx with a value that w watches.
func (w *watch) with(ctx context.Context) context.Context {
	return context.WithValue(ctx, loadKey{}, w.load("value of the context"))
}

// use keeps a load alive until here.
func (l *load) use() { l.data[0]++ }

// collected waits until everything that w knows has been collected. The caller runs the
// collector, and pause lets ended operations finish.
func (w *watch) collected(pause func() error) error {
	for began := time.Now(); ; {
		runtime.GC()
		if err := w.check(); err == nil || time.Since(began) > patience {
			runtime.KeepAlive(w.keep)
			return err
		}
		if err := pause(); err != nil {
			return err
		}
	}
}

// check reports what has not been collected.
func (w *watch) check() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(w.left)) {
		n := 0
		for _, alive := range w.left[name] {
			if alive() {
				n++
			}
		}
		if n > 0 {
			errs = append(errs, fmt.Errorf("%d of %d are kept: %s", n, len(w.left[name]), name))
		}
	}
	return errors.Join(errs...)
}

// patience is how long objects may take to be collected, on a busy machine.
const patience = 3 * time.Second

// operation is something that has ended when run returns.
type operation struct {
	name string
	run  func(ctx context.Context, w *watch) error
}

// atOnce is how many operations of a kind run at the same time, so that as many coroutines
// become idle.
const atOnce = 4

// checkAll runs operations in one run, which goes on.
func checkAll(t *testing.T, operations []operation) {
	for _, op := range operations {
		t.Run(op.name, func(t *testing.T) {
			err := spindle.Run(t.Context(), func(ctx context.Context) error {
				w := &watch{}
				if err := several(ctx, w, op.run); err != nil {
					return err
				}
				return w.collected(func() error { return spindle.Sleep(ctx, time.Millisecond) })
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// several runs an operation atOnce times.
//
//go:noinline
func several(ctx context.Context, w *watch, run func(context.Context, *watch) error) error {
	return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		for range atOnce {
			n.Go(func(ctx context.Context) error { return run(ctx, w) })
		}
		return nil
	})
}
