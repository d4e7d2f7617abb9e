package behaviour_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/sim"
)

var errUnread = errors.New("unread")

func failsLater(ctx context.Context) (int, error) {
	if err := spindle.Sleep(ctx, time.Millisecond); err != nil {
		return 0, err
	}
	return 0, errUnread
}

// logged is a buffer for the log of a run. Any goroutine.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// logging runs a program and returns what it logs.
func logging(t *testing.T, program func(ctx context.Context) error) (*logged, error) {
	t.Helper()
	log := &logged{}
	o := spindle.Options{ErrorLog: slog.New(slog.NewTextHandler(log, nil))}
	return log, o.Run(t.Context(), program)
}

// here returns the file and line of its caller, plus more lines.
func here(more int) string {
	_, file, line, _ := runtime.Caller(1)
	return fmt.Sprintf("%s:%d", path.Base(file), line+more)
}

// TestFailuresThatNothingReadsAreLogged once, in order, with the task and the place of
// Spawn.
func TestFailuresThatNothingReadsAreLogged(t *testing.T) {
	var place string
	log, err := logging(t, func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			place = here(1)
			spindle.Spawn(n, failsLater)
			spindle.Spawn(n, func(ctx context.Context) (int, error) { return 0, errors.New("another one") })
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
	text := log.String()
	if strings.Count(text, "\n") != 2 || strings.Index(text, "another one") > strings.Index(text, errUnread.Error()) {
		t.Errorf("logged\n%s", text)
	}
	for _, want := range []string{"never awaited", "task=behaviour_test.failsLater", "spawned=" + place} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
}

// TestFailuresThatAreReadAreNotLogged, if they are read in any way before the run ends. Nor
// are cancellations, or panics, with which Run panics.
func TestFailuresThatAreReadAreNotLogged(t *testing.T) {
	within := func(read func(ctx context.Context, f *spindle.Future[int])) func(context.Context) error {
		return func(ctx context.Context) error {
			var f *spindle.Future[int]
			err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				f = spindle.Spawn(n, failsLater)
				return nil
			})
			read(ctx, f)
			return err
		}
	}
	for name, program := range map[string]func(context.Context) error{
		"Await": func(ctx context.Context) error {
			f := spindle.Spawn(spindle.RootNursery(ctx), failsLater)
			if _, err := f.Await(ctx); err != errUnread {
				t.Errorf("Await: %v", err)
			}
			return nil
		},
		"Await by several": func(ctx context.Context) error {
			f := spindle.Spawn(spindle.RootNursery(ctx), failsLater)
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				for range 3 {
					n.Go(func(ctx context.Context) error { f.Await(ctx); return nil })
				}
				return nil
			})
		},
		"Await later": within(func(ctx context.Context, f *spindle.Future[int]) { f.Await(ctx) }),
		"Result":      within(func(ctx context.Context, f *spindle.Future[int]) { f.Result() }),
		"Err":         within(func(ctx context.Context, f *spindle.Future[int]) { f.Err() }),
		"Cancel": func(ctx context.Context) error {
			f := spindle.Spawn(spindle.RootNursery(ctx), failsLater)
			err := spindle.Yield(ctx)
			f.Cancel()
			return err
		},
		"end of the run": func(ctx context.Context) error {
			spindle.Spawn(spindle.RootNursery(ctx), failsLater)
			return spindle.Yield(ctx)
		},
		"success": func(ctx context.Context) error {
			return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
				spindle.Spawn(n, func(ctx context.Context) (int, error) { return 1, nil })
				return nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			log, err := logging(t, program)
			if err != nil || log.String() != "" {
				t.Errorf("%v, logged\n%s", err, log)
			}
		})
	}
	t.Run("panic", func(t *testing.T) {
		var log *logged
		p := panicOf(func() (err error) {
			o := spindle.Options{}
			log = &logged{}
			o.ErrorLog = slog.New(slog.NewTextHandler(log, nil))
			return o.Run(t.Context(), func(ctx context.Context) error {
				spindle.Spawn(spindle.RootNursery(ctx), func(ctx context.Context) (int, error) { panic("boom") })
				return forever(ctx)
			})
		})
		if p == nil || log.String() != "" {
			t.Errorf("%v, logged\n%s", p, log)
		}
	})
}

// TestWaitDoesNotReadFailures: Wait and AsCompleted look for failures, but the code that
// calls them has not seen the error yet.
func TestWaitDoesNotReadFailures(t *testing.T) {
	for name, wait := range map[string]func(context.Context, *spindle.Future[int]) error{
		"FirstFailure": func(ctx context.Context, f *spindle.Future[int]) error {
			_, _, err := spindle.Wait(ctx, spindle.FirstFailure, f)
			return err
		},
		"AllDone": func(ctx context.Context, f *spindle.Future[int]) error {
			_, _, err := spindle.Wait(ctx, spindle.AllDone, f)
			return err
		},
		"AsCompleted": func(ctx context.Context, f *spindle.Future[int]) error {
			for _, err := range spindle.AsCompleted(ctx, f) {
				return err
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			log, err := logging(t, func(ctx context.Context) error {
				return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
					return wait(ctx, spindle.Spawn(n, failsLater))
				})
			})
			if err != nil || strings.Count(log.String(), "never awaited") != 1 {
				t.Errorf("%v, logged\n%s", err, log)
			}
		})
	}
}

// TestCollectedFuturesAreLogged during the run, and not again at its end.
func TestCollectedFuturesAreLogged(t *testing.T) {
	log := &logged{}
	o := spindle.Options{ErrorLog: slog.New(slog.NewTextHandler(log, nil))}
	err := o.Run(t.Context(), func(ctx context.Context) error {
		if err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			spindle.Spawn(n, failsLater)
			return nil
		}); err != nil {
			return err
		}
		for log.String() == "" {
			runtime.GC()
			if err := spindle.Sleep(ctx, time.Millisecond); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("%v, logged\n%s", err, log)
	}
}

// TestUnreadFailuresOfRunsOnALoop: they are logged when the run or the loop ends.
func TestUnreadFailuresOfRunsOnALoop(t *testing.T) {
	for _, ended := range []bool{true, false} {
		log := &logged{}
		before := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
		defer slog.SetDefault(before)
		l := openLoop(t)
		n, end := spindle.NurseryOn(t.Context(), l)
		f := spindle.Spawn(n, func(context.Context) (int, error) { return 0, errUnread })
		turn(t, l)
		if ended {
			end(func(error) {})
			turn(t, l)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if strings.Count(log.String(), "never awaited") != 1 {
			t.Errorf("ended %v: logged\n%s", ended, log)
		}
		runtime.KeepAlive(f)
	}
}

// TestUnreadFailuresInASimulatedRun are logged only at its end, so that the run does not
// depend on the garbage collector.
func TestUnreadFailuresInASimulatedRun(t *testing.T) {
	log := &logged{}
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
	defer slog.SetDefault(before)
	err := sim.Run(t.Context(), func(ctx context.Context) error {
		spindle.Spawn(spindle.RootNursery(ctx), failsLater)
		for range 10 {
			if err := spindle.Sleep(ctx, time.Second); err != nil {
				return err
			}
			runtime.GC()
		}
		if log.String() != "" {
			t.Errorf("logged before the end: %s", log)
		}
		return nil
	})
	if err != nil || strings.Count(log.String(), "never awaited") != 1 {
		t.Errorf("%v, logged\n%s", err, log)
	}
}

// TestCollectedFuturesAreNoLostWork: the collector drops the future about when the run ends,
// and the run has logged its failure.
func TestCollectedFuturesAreNoLostWork(t *testing.T) {
	for i := range short.Of(50) {
		var log bytes.Buffer
		o := spindle.Options{ErrorLog: slog.New(slog.NewTextHandler(&log, nil))}
		err := o.Run(t.Context(), func(ctx context.Context) error {
			spindle.Spawn(spindle.RootNursery(ctx), func(context.Context) (int, error) { return 0, errCause })
			if err := spindle.Yield(ctx); err != nil {
				return err
			}
			runtime.GC()
			return nil
		})
		if n := strings.Count(log.String(), "never awaited"); err != nil || n != 1 {
			t.Fatalf("round %d: %v, logged %d times", i, err, n)
		}
	}
}
