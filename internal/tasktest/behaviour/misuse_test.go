package behaviour_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/sim"
)

// waitsIn returns all calls that may wait, with contexts of ctx's run.
func waitsIn(ctx context.Context) map[string]func() {
	var lot spindle.Lot
	fn := func(context.Context) error { return nil }
	f := spindle.NewFuture[int](ctx)
	value := func(context.Context) (int, error) { return 0, nil }
	n := spindle.RootNursery(ctx)
	return map[string]func(){
		"Sleep":        func() { spindle.Sleep(ctx, time.Second) },
		"Sleep(0)":     func() { spindle.Sleep(ctx, 0) },
		"Yield":        func() { spindle.Yield(ctx) },
		"Checkpoint":   func() { spindle.Checkpoint(ctx) },
		"Ticker.Wait":  func() { spindle.NewTicker(ctx, time.Second).Wait(ctx) },
		"ForEach":      func() { spindle.ForEach(ctx, 1, []int{1}, func(context.Context, int) error { return nil }) },
		"Map":          func() { spindle.Map(ctx, 1, []int{1}, func(context.Context, int) (int, error) { return 0, nil }) },
		"NewWaker":     func() { spindle.NewWaker(ctx) },
		"Lot.Wait":     func() { lot.Wait(ctx, "") },
		"WaitReadable": func() { spindle.WaitReadable(ctx, 0) },
		"WaitWritable": func() { spindle.WaitWritable(ctx, 0) },
		"WithScope":    func() { spindle.WithScope(ctx, func(context.Context, *spindle.Scope) error { return nil }) },
		"WithNursery":  func() { spindle.WithNursery(ctx, func(context.Context, *spindle.Nursery) error { return nil }) },
		"MoveOnAfter":  func() { spindle.MoveOnAfter(ctx, time.Second, fn) },
		"FailAfter":    func() { spindle.FailAfter(ctx, time.Second, fn) },
		"Grace":        func() { spindle.Grace(ctx, time.Second, fn) },
		"Shield":       func() { spindle.Shield(ctx, fn) },
		"Gather":       func() { spindle.Gather(ctx, value) },
		"GatherAll":    func() { spindle.GatherAll(ctx, value) },
		"Blocking":     func() { spindle.Blocking(ctx, func() (int, error) { return 0, nil }) },
		"Abandon":      func() { spindle.Abandon(ctx, func() (int, error) { return 0, nil }) },
		"Future.Await": func() { f.Await(ctx) },
		"Wait":         func() { spindle.Wait(ctx, spindle.AllDone, f) },
		"Start": func() {
			spindle.Start(ctx, n, func(_ context.Context, started func(int)) error { started(1); return nil })
		},
		"AsCompleted": func() {
			for range spindle.AsCompleted(ctx, f) {
				break
			}
		},
	}
}

// inWrongPlaces are the places in which code cannot wait with the context of a task, and
// parts of the panic message there.
var inWrongPlaces = []struct {
	name string
	from func(ctx context.Context, call func())
	says []string
}{
	{"another goroutine", func(_ context.Context, call func()) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			call()
		}()
		<-done
	}, []string{"goroutine that is not the running task", "goroutine that is not the loop's"}},
	{"a generator of iter.Pull", func(_ context.Context, call func()) {
		next, stop := iter.Pull(func(func(int) bool) { call() })
		defer stop()
		next()
	}, []string{"generator of iter.Pull", "goroutine that is not the loop's"}},
	{"a callback", func(ctx context.Context, call func()) {
		f := spindle.NewFuture[int](ctx)
		spindle.LoopOf(ctx).CallSoon(func() { call(); f.Resolve(1) })
		f.Await(ctx)
	}, []string{"called from a callback, which cannot wait"}},
}

// TestWaitsInTheWrongPlaceAreNamed in panics, and the loop continues.
func TestWaitsInTheWrongPlaceAreNamed(t *testing.T) {
	for _, place := range inWrongPlaces {
		t.Run(place.name, func(t *testing.T) {
			sim.Test(t, func(ctx context.Context) error {
				for name, call := range waitsIn(ctx) {
					place.from(ctx, func() {
						defer func() {
							text, _ := recover().(string)
							said := false
							for _, words := range place.says {
								said = said || strings.HasPrefix(text, "spindle: ") && strings.Contains(text, words)
							}
							if !said {
								t.Errorf("%s: panic %q", name, text)
							}
						}()
						call()
					})
					if err := spindle.Yield(ctx); err != nil {
						return err
					}
				}
				return spindle.Sleep(ctx, time.Second)
			})
		})
	}
}

// TestWaitsWithAForeignContextAreNamed: with a context of no run, and with one of another
// run.
func TestWaitsWithAForeignContextAreNamed(t *testing.T) {
	want := func(words string, fn func()) {
		t.Helper()
		defer func() {
			if text, _ := recover().(string); !strings.HasPrefix(text, "spindle: ") || !strings.Contains(text, words) {
				t.Errorf("panic %q, want one about %q", text, words)
			}
		}()
		fn()
	}
	ctx := context.Background()
	for _, call := range []func(){
		func() { spindle.Sleep(ctx, 1) },
		func() { spindle.LoopOf(ctx) },
		func() { spindle.Now(ctx) },
		func() { spindle.TreeOf(ctx) },
		func() { spindle.RootNursery(ctx) },
		func() { spindle.NewFuture[int](ctx) },
		func() { spindle.WithNursery(ctx, nil) },
	} {
		want("does not come from a task", call)
	}
	sim.Test(t, func(ctx context.Context) error {
		done := make(chan error)
		go func() {
			done <- sim.Run(context.Background(), func(context.Context) error {
				want("not the running task", func() { spindle.Yield(ctx) })
				return nil
			})
		}()
		return errors.Join(<-done, spindle.Yield(ctx))
	})
}

// TestNilContextIsNamed in the panic, with the function that was called.
func TestNilContextIsNamed(t *testing.T) {
	var none context.Context
	l := openLoop(t)
	defer l.Close()
	fn := func(context.Context) error { return nil }
	for want, call := range map[string]func(){
		"spindle: Sleep with a context that does not come from a task": func() { spindle.Sleep(none, 1) },
		"spindle: LoopOf with a context":                               func() { spindle.LoopOf(none) },
		"spindle: Run: nil context":                                    func() { spindle.Run(none, fn) },
		"spindle: RunOn: nil context":                                  func() { spindle.RunOn(none, l, fn, nil) },
	} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.HasPrefix(text, want) {
					t.Errorf("panic %q, want %q", text, want)
				}
			}()
			call()
		}()
	}
}

// TestScopesCloseInOrder however code leaves them: only the task that opened a scope can
// leave it, by returning, so that it leaves the scopes inside first.
func TestScopesCloseInOrder(t *testing.T) {
	// scoped opens a scope around each of its values.
	scoped := func(ctx context.Context, left *int) iter.Seq[context.Context] {
		return func(yield func(context.Context) bool) {
			for more := true; more; {
				spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
					defer func() { *left++ }()
					more = yield(ctx)
					return nil
				})
			}
		}
	}
	for name, leave := range map[string]func(ctx context.Context, left *int){
		"break": func(ctx context.Context, left *int) {
			for ctx := range scoped(ctx, left) {
				for ctx := range scoped(ctx, left) {
					if spindle.Yield(ctx) != nil {
						return
					}
					break
				}
				break
			}
		},
		"return": func(ctx context.Context, left *int) {
			for ctx := range scoped(ctx, left) {
				for range scoped(ctx, left) {
					return
				}
			}
		},
		"panic": func(ctx context.Context, left *int) {
			defer func() { recover() }()
			for ctx := range scoped(ctx, left) {
				for range scoped(ctx, left) {
					panic("out of both")
				}
			}
		},
		"an outer context inside": func(ctx context.Context, left *int) {
			for range scoped(ctx, left) {
				for range scoped(ctx, left) { // of the task's scope, not of the one around
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			sim.Test(t, func(ctx context.Context) error {
				return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
					left := 0
					leave(ctx, &left)
					if left != 2 {
						t.Errorf("%d scopes were left", left)
					}
					// The task is back in its own scope, and in no other.
					if err := spindle.Sleep(ctx, time.Second); err != nil {
						return err
					}
					s.Cancel(nil)
					return forever(ctx)
				})
			})
		})
	}
}

// TestMisuseNamesWhatWasCalled: the exported function and the line that called it, not the
// functions inside.
func TestMisuseNamesWhatWasCalled(t *testing.T) {
	bg := context.Background()
	for name, call := range map[string]func(){
		"FailAfter":         func() { spindle.FailAfter(bg, 1, nil) },
		"Gather":            func() { spindle.Gather(bg, func(context.Context) (int, error) { return 0, nil }) },
		"Blocking":          func() { spindle.Blocking(bg, func() (int, error) { return 0, nil }) },
		"cosync.Mutex.Lock": func() { new(cosync.Mutex).Lock(bg) },
	} {
		var caught *spindle.PanicError
		func() {
			defer func() { caught, _ = recover().(*spindle.PanicError) }()
			spindle.Run(bg, func(context.Context) error { call(); return nil })
		}()
		if caught == nil {
			t.Fatalf("%s: no panic", name)
		}
		want := "spindle: " + name + " with a context that does not come from a task;" +
			" pass on the ctx of the task that calls it, or call it in spindle.Run;" +
			" an HTTP handler is a task only if it is marked with web.Inline and served by web.Server"
		if caught.Value != want {
			t.Errorf("panic %q, want %q", caught.Value, want)
		}
		if !strings.Contains(caught.Error(), ", called at misuse_test.go:") {
			t.Errorf("it does not say where it was called: %v", caught)
		}
	}
}

func TestMisuseIsNamed(t *testing.T) {
	want := func(words string, fn func()) {
		t.Helper()
		defer func() {
			if s, ok := recover().(string); !ok || !strings.HasPrefix(s, "spindle: ") || !strings.Contains(s, words) {
				t.Errorf("panic %q, want one about %q", s, words)
			}
		}()
		fn()
	}
	want("does not come from a task", func() { spindle.Sleep(context.Background(), 1) })
	sim.Test(t, func(ctx context.Context) error {
		done := make(chan struct{})
		go func() {
			defer close(done)
			want("not the running task", func() { spindle.Sleep(ctx, time.Second) })
		}()
		<-done
		next, stop := iter.Pull(func(yield func(int) bool) {
			want("iter.Pull", func() { spindle.Yield(ctx) })
			yield(1)
		})
		defer stop()
		next()
		var ended *spindle.Nursery
		if err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error { ended = n; return nil }); err != nil {
			return err
		}
		want("has ended", func() { ended.Go(forever) })
		want("nil function", func() { spindle.RootNursery(ctx).Go(nil) })
		want("nil function", func() { spindle.Spawn[int](spindle.RootNursery(ctx), nil) })
		return spindle.Yield(ctx) // unharmed
	})
}

// TestForeignGoroutineIsRefusedWithoutARace needs the race detector to fail.
func TestForeignGoroutineIsRefusedWithoutARace(t *testing.T) {
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		done := make(chan any, 1)
		go func() {
			defer func() { done <- recover() }()
			if spindle.Current(ctx) != nil {
				t.Error("a goroutine was taken for a task")
			}
			spindle.Checkpoint(ctx)
		}()
		for range 1000 {
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
		}
		if <-done == nil {
			t.Error("not refused")
		}
		if spindle.Current(ctx) == nil {
			t.Error("a task was not recognised")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestForeignGoroutinesAreNamed in panics: other goroutines must not change what belongs to
// a loop.
func TestForeignGoroutinesAreNamed(t *testing.T) {
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			f := spindle.NewFuture[int](ctx)
			n := spindle.RootNursery(ctx)
			for name, call := range map[string]func(){
				"Scope.Cancel":      func() { s.Cancel(nil) },
				"Scope.SetShield":   func() { s.SetShield(true) },
				"Scope.SetDeadline": func() { s.SetDeadline(time.Now()) },
				"Nursery.Go":        func() { n.Go(forever) },
				"a Future":          func() { f.Resolve(1) },
				"Future.Then":       func() { f.Then(func() {}) },
			} {
				caught := make(chan any)
				go func() {
					defer func() { caught <- recover() }()
					call()
				}()
				if text, ok := (<-caught).(string); !ok || !strings.HasPrefix(text, "spindle: ") || !strings.Contains(text, name) {
					t.Errorf("%s: panic %v", name, text)
				}
			}
			return spindle.Yield(ctx) // unharmed
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestForeignSpawnAndTreeAreNamed(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context){
		"Spawn":  func(ctx context.Context) { spindle.Spawn(spindle.RootNursery(ctx), after(1, 1, nil)) },
		"TreeOf": func(ctx context.Context) { spindle.TreeOf(ctx) },
	} {
		spindle.Run(t.Context(), func(ctx context.Context) error {
			caught := make(chan any, 1)
			go func() {
				defer func() { caught <- recover() }()
				call(ctx)
			}()
			for len(caught) == 0 {
				spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error { n.Go(spindle.Yield); return spindle.Yield(ctx) })
			}
			if text, _ := (<-caught).(string); !strings.HasPrefix(text, "spindle: ") {
				t.Errorf("%s: %q", name, text)
			}
			return nil
		})
	}
}
