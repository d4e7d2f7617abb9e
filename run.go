package spindle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spindleloop/spindle/loop"
)

// Options configure Run.
type Options struct {
	// Loop configures the loop that Run makes.
	Loop loop.Options

	// Grace is how long tasks may take to clean up once everything is
	// cancelled; who takes longer is made to exit (its deferred calls run)
	// and is reported. Zero means 5 seconds.
	Grace time.Duration
}

// Run makes a loop and runs fn on it as a task; it returns when fn and all
// tasks it has started have ended. If ctx ends, everything is cancelled and Run
// returns the context's cause. It is asyncio.run and trio.run.
func Run(ctx context.Context, fn func(context.Context) error) error {
	return RunWith(ctx, Options{}, fn)
}

// RunWith is Run with options.
func RunWith(ctx context.Context, o Options, fn func(context.Context) error) (err error) {
	l, err := loop.New(o.Loop)
	if err != nil {
		return err
	}
	defer func() {
		if lost := l.Close(); lost != nil {
			err = errors.Join(err, lost)
		}
	}()
	return RunOn(ctx, l, o, fn)
}

// RunOn is Run on a loop that is there already, and goes on to be there: it can
// be called again. The loop must not be running.
func RunOn(ctx context.Context, l *loop.Loop, o Options, fn func(context.Context) error) (err error) {
	r := &run{l: l, s: newSched(l), o: o}
	if r.o.Grace == 0 {
		r.o.Grace = 5 * time.Second
	}
	defer r.s.close()
	r.root = &Nursery{s: r.s, running: 1, scope: r.s.open(ctx, nil), done: l.Stop}
	r.root.GoWith(TaskOptions{Name: "main"}, func(ctx context.Context) error {
		err := fn(ctx)
		r.cancel(context.Canceled)
		return err
	})
	r.root.running-- // there is no body
	r.s.root = r.root
	unfollow := r.follow(ctx)
	defer func() {
		if late := unfollow(); late != nil {
			err = errors.Join(err, late)
		}
	}()
	if err := l.Run(context.Background()); err != nil {
		failure := &LoopError{Err: err, Tree: r.s.tree()}
		r.clear(err)
		r.result(ctx)
		return failure
	}
	return r.result(ctx)
}

// follow cancels the run with ctx, until unfollow is called.
func (r *run) follow(ctx context.Context) (unfollow func() error) {
	if ctx.Done() == nil {
		return func() error { return nil }
	}
	posted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(posted)
		r.l.Post(func() { r.cancel(context.Cause(ctx)) })
	})
	return func() error {
		if stop() {
			return nil
		}
		// It came as the run ended, and is nothing that was lost.
		<-posted
		_, err := r.l.RunOnce(0)
		return err
	}
}

// LoopError tells that the loop under the tasks failed, with the tasks as they
// were.
type LoopError struct {
	Err  error
	Tree Tree
}

func (e *LoopError) Error() string { return e.Err.Error() + "\n" + e.Tree.String() }

// Unwrap returns the loop's error.
func (e *LoopError) Unwrap() error { return e.Err }

// clear ends what a loop that has failed leaves behind: cancelled, and if that
// is not enough, made to exit.
func (r *run) clear(err error) {
	r.root.scope.Cancel(err)
	for range 2 {
		for r.root.running > 0 {
			if r.l.Run(context.Background()) != nil {
				break
			}
		}
		r.doom()
	}
}

// Background is the nursery of the run that ctx belongs to. Tasks that are
// started there are not waited for: when the function that was given to Run
// returns, they are cancelled. Their failure ends the run.
func Background(ctx context.Context) *Nursery {
	scope := scopeOf(ctx)
	if scope == nil {
		panic("spindle: Background with a context that does not come from a task")
	}
	return scope.s.root
}

// run is a Run under way.
type run struct {
	l          *loop.Loop
	s          *sched
	o          Options
	root       *Nursery
	grace      loop.Timer // at its end the stragglers are doomed
	stragglers []string
}

// cancel cancels everything, and sees to it that everything ends.
func (r *run) cancel(cause error) {
	if r.root.scope.canceled != nil {
		return
	}
	r.root.scope.Cancel(cause)
	r.grace = r.l.CallLater(r.o.Grace, r.doom)
}

// doom makes the tasks that are left exit at their next wait.
func (r *run) doom() {
	for _, t := range r.s.tasks() {
		r.stragglers = append(r.stragglers, t.Name())
		t.doomed, t.budget = true, 0
		t.cancelWait(r.root.scope.canceled)
	}
}

func (r *run) result(ctx context.Context) error {
	r.grace.Cancel() // the loop may go on to be used
	r.root.closed = true
	err := r.root.result()
	if err == nil && ctx.Err() != nil && r.root.scope.caught {
		err = context.Cause(ctx)
	}
	r.root.scope.close()
	if len(r.stragglers) > 0 {
		return errors.Join(err, &StragglerError{r.stragglers})
	}
	return err
}

// StragglerError tells of tasks that heeded no cancellation and had to be ended.
type StragglerError struct{ Tasks []string }

func (e *StragglerError) Error() string {
	return fmt.Sprintf("spindle: %d tasks did not end when cancelled: %q", len(e.Tasks), e.Tasks)
}
