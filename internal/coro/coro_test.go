package coro

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"

	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/loop"
)

func TestMain(m *testing.M) { leak.Main(m) }

// fixture is a scheduler on a loop that the test steps.
type fixture struct {
	*Scheduler
	t      *testing.T
	l      *loop.Loop
	events []string
}

// inBothModes runs a test with direct and with portable switches.
func inBothModes(t *testing.T, test func(f *fixture)) {
	for _, portable := range []bool{false, true} {
		name := "direct"
		if portable {
			name = "portable"
		}
		t.Run(name, func(t *testing.T) {
			if !portable && !switchesDirectly() {
				t.Skip("this build has no direct switches")
			}
			l, err := loop.New(loop.Options{Watchdog: -1})
			if err != nil {
				t.Fatal(err)
			}
			f := &fixture{Scheduler: new(Scheduler), t: t, l: l}
			f.Init(l)
			f.portable = portable
			test(f)
			f.EndIdle()
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

type nameKey struct{}

// task is a Body for tests.
type task struct {
	f     *fixture
	name  string
	run   func(c *Coro)
	ctx   context.Context
	bound context.Context // by Bind
}

func (b *task) Name() string             { return b.name }
func (b *task) Bind(ctx context.Context) { b.bound = ctx }

func (b *task) NewWaker(context.Context) (Waker, error) { panic("the tests use NextWaker") }

func (b *task) Run(c *Coro) {
	c.SetContext(b.ctx, false)
	defer func() {
		if v := recover(); v != nil {
			b.f.note(b.name, "panicked")
		}
	}()
	b.run(c)
}

func (f *fixture) task(name string, run func(c *Coro)) *task {
	return &task{f: f, name: name, run: run, ctx: context.WithValue(context.Background(), nameKey{}, name)}
}

func (f *fixture) start(name string, run func(c *Coro)) { f.Start(loop.Normal, f.task(name, run)) }

func (f *fixture) note(name, what string) { f.events = append(f.events, name+" "+what) }

// saw fails the test unless exactly these events have happened since the last call.
func (f *fixture) saw(want ...string) {
	f.t.Helper()
	if !slices.Equal(f.events, want) {
		f.t.Errorf("events %q, want %q", f.events, want)
	}
	f.events = nil
}

// step runs fn as a callback, and everything that is ready then.
func (f *fixture) step(fn func()) {
	f.t.Helper()
	f.l.CallSoon(fn)
	for n := 1; n > 0; {
		var err error
		if n, err = f.l.RunOnce(0); err != nil {
			f.t.Fatal(err)
		}
	}
}

type abortable bool

func (a abortable) Abort() bool { return bool(a) }

// park waits as Park does.
func park(w Waker, ctx context.Context, ab Aborter) error {
	sw, err := w.Leave(ctx, "the test", ab)
	for sw != nil {
		sw()
		sw, err = w.Back()
	}
	return err
}

func TestStates(t *testing.T) {
	inBothModes(t, func(f *fixture) {
		var c *Coro
		var w Waker
		expect := func(when string, want State) {
			f.t.Helper()
			if got := c.State(); got != want {
				f.t.Errorf("%s: state %d, want %d", when, got, want)
			}
		}
		f.start("a", func(co *Coro) {
			c = co
			expect("begun", Running)
			w = c.NextWaker()
			if err := park(w, nil, abortable(true)); err != nil {
				f.t.Errorf("the wait ended with %v", err)
			}
			expect("after a wait", Running)
			c.Yield()
			expect("after Yield", Running)
		})
		f.step(func() {})
		expect("in a wait", Waiting)
		if what, _, _ := c.Wait(); what != "the test" || !w.Waiting() {
			f.t.Errorf("waits for %q", what)
		}
		f.step(func() {
			if !w.Wake(nil) {
				f.t.Error("Wake failed")
			}
			expect("woken", Ready)
			if w.Wake(nil) {
				f.t.Error("woken twice")
			}
		})
		expect("ended", Idle)
		if c.Body() != nil || c.Context() != nil || c.FreeContext() != nil || !slices.Contains(f.idle, c) {
			f.t.Error("an idle coroutine has a task, or is not in the pool")
		}
		f.start("b", func(co *Coro) {
			if co != c {
				f.t.Error("the idle coroutine was not used")
			}
		})
		f.step(func() {})
	})
}

// TestEnds: however a task ends, the others continue in the order of the lane, and those
// that are suspended in the pull of the ended coroutine are not affected.
func TestEnds(t *testing.T) {
	for name, end := range map[string]struct {
		fn     func()
		events []string
	}{
		"return": {func() {}, nil},
		"panic":  {func() { panic("on purpose") }, []string{"panicked"}},
		"Goexit": {runtime.Goexit, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inBothModes(t, func(f *fixture) {
				var want []string
				for _, name := range []string{"a", "b", "c", "d"} {
					f.start(name, func(c *Coro) {
						defer f.note(name, "ends")
						f.note(name, "begins")
						c.Yield()
						if name == "c" || name == "a" {
							end.fn()
							return
						}
						c.Yield()
					})
					want = append(want, name+" begins")
				}
				for _, name := range []string{"a", "c"} {
					want = append(want, name+" ends")
					for _, event := range end.events {
						want = append(want, name+" "+event)
					}
				}
				f.step(func() {})
				f.saw(append(want, "b ends", "d ends")...)
			})
		})
	}
}

// TestRunNestedReturnsToItsCaller when the new task waits or ends; no other task runs
// meanwhile.
func TestRunNestedReturnsToItsCaller(t *testing.T) {
	inBothModes(t, func(f *fixture) {
		f.start("other", func(c *Coro) { f.note("other", "runs") })
		nest := func(b Body) { f.RunNested(f.Host(loop.Normal, b)) }
		begin := func() {
			f.CheckBegin()
			nest(f.task("yields", func(c *Coro) {
				f.note("yields", "begins")
				c.Yield()
				f.note("yields", "ends")
			}))
			nest(f.task("returns", func(c *Coro) { f.note("returns", "ends") }))
			nest(f.task("exits", func(c *Coro) {
				nest(f.task("inner", func(c *Coro) {
					f.note("inner", "ends")
					runtime.Goexit()
				}))
				f.note("exits", "ends")
				runtime.Goexit()
			}))
		}
		begun := []string{"yields begins", "returns ends", "inner ends", "exits ends"}
		begin() // before the loop runs
		f.saw(begun...)
		f.step(func() {
			begin()
			f.note("callback", "ends")
		})
		f.saw(append([]string{"other runs", "yields ends"}, append(begun, "callback ends", "yields ends")...)...)
		f.start("task", func(c *Coro) {
			begin()
			f.note("task", "ends")
		})
		f.step(func() {})
		f.saw(append(begun, "task ends", "yields ends")...)
	})
}

func TestAbort(t *testing.T) {
	inBothModes(t, func(f *fixture) {
		why := errors.New("the reason")
		for _, agrees := range []abortable{true, false} {
			var c *Coro
			var got error
			f.start("a", func(co *Coro) { c = co; got = park(c.NextWaker(), nil, agrees) })
			f.step(func() {})
			f.step(func() {
				if c.Abort(why) != bool(agrees) {
					f.t.Errorf("Abort did not report %v", agrees)
				}
				if !agrees {
					c.End(nil)
				}
			})
			if want := map[abortable]error{true: why}[agrees]; got != want {
				f.t.Errorf("the wait ended with %v, want %v", got, want)
			}
			if c.Abort(why) {
				f.t.Error("a coroutine that does not wait was aborted")
			}
		}
	})
}

// TestBindIsCalledWhereItMayBeNeeded, and what it has arranged is undone after the wait.
func TestBindIsCalledWhereItMayBeNeeded(t *testing.T) {
	inBothModes(t, func(f *fixture) {
		other := context.WithValue(context.Background(), nameKey{}, "other")
		var w Waker
		b := f.task("a", nil)
		b.run = func(c *Coro) {
			w = c.NextWaker()
			park(w, b.ctx, abortable(true))
			if b.bound != nil {
				f.t.Error("Bind was called")
			}
			c.BindNext()
			w = c.NextWaker()
			park(w, other, abortable(true))
			f.note("a", "continues")
		}
		f.Start(loop.Normal, b)
		f.step(func() {})
		f.step(func() { w.Wake(nil) })
		if b.bound != other {
			f.t.Error("Bind was not called")
		}
		w.Coro().AfterWait(func() { f.note("first", "undone") })
		w.Coro().AfterWait(func() { f.note("second", "undone") })
		f.step(func() { w.Wake(nil) })
		f.saw("first undone", "second undone", "a continues")
	})
}

// TestHere: only a task has a context.
func TestHere(t *testing.T) {
	inBothModes(t, func(f *fixture) {
		l := f.l
		b := f.task("a", nil)
		b.run = func(c *Coro) {
			if Here(l) != b.ctx || f.Caller() != c || f.Running() != c {
				f.t.Error("a task does not find itself")
			}
			OnGoroutine(func() {
				if Here(l) != nil || f.Caller() != nil {
					f.t.Error("another goroutine is taken for the task")
				}
			})
		}
		f.Start(loop.Normal, b)
		f.step(func() {
			if Here(l) != nil || f.Caller() != nil {
				f.t.Error("a callback is taken for a task")
			}
		})
	})
}

func TestBudget(t *testing.T) {
	inBothModes(t, func(f *fixture) {
		f.start("a", func(c *Coro) {
			taken := 0
			for c.TakeBudget() {
				taken++
			}
			if taken != int(f.l.Internal().FreeWaits())-1 {
				f.t.Errorf("%d waits complete at once", taken)
			}
			f.start("b", func(*Coro) { f.note("b", "runs") })
			c.NextWaker().Pass()
			f.note("a", "continues")
		})
		f.step(func() {})
		f.saw("b runs", "a continues")
	})
}

// TestRefNamesOnlyItsTask, not another one on the same coroutine.
func TestRefNamesOnlyItsTask(t *testing.T) {
	inBothModes(t, func(f *fixture) {
		var ref Ref
		f.start("a", func(c *Coro) {
			ref = c.NextWaker().Ref()
			if ref.Name() != "a" {
				f.t.Errorf("the task is named %q", ref.Name())
			}
		})
		f.step(func() {})
		f.start("b", func(c *Coro) {
			if name := ref.Name(); name != "" || (Ref{}).Name() != "" {
				f.t.Errorf("a task that has ended is named %q", name)
			}
		})
		f.step(func() {})
	})
}
