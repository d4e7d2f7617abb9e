package supervise

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/backoff"
)

// phase is where a child is in its life:
//
//	 ┌────────────── a restart ──────────────┐
//	 ▼                                       │
//	due ──▶ starting ──ready──▶ running ──end┤
//	 │          └───────────end──────────────┤
//	 └──everything ends──▶ done ◀────────────┘
type phase uint8

const (
	due      phase = iota // to be started at child.at
	starting              // those after it wait
	running
	done
)

// child is a Child with its state. Loop goroutine only.
type child struct {
	Child
	phase    phase
	stop     bool            // it is to end, because of another child or the end of everything
	scope    *spindle.Scope  // of its task, while it is alive
	at       time.Time       // when it is due
	began    time.Time       // when it was last started; zero if never
	pauses   backoff.Backoff // before its restarts
	restarts int
}

// alive reports whether the child has a task.
func (c *child) alive() bool { return c.phase == starting || c.phase == running }

// title is the name of its task.
func (c *child) title() string {
	if c.restarts == 0 {
		return c.Name
	}
	return fmt.Sprintf("%s, restart %d", c.Name, c.restarts)
}

// run calls the child's function. A cancellation outside does not reach it, because the
// supervisor stops one child after the other. A panic is an error.
func (c *child) run(ctx context.Context, ready func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			p, ok := v.(*spindle.PanicError)
			if !ok {
				p = &spindle.PanicError{Value: v, Stack: debug.Stack()}
			}
			err = p
		}
	}()
	return spindle.WithScope(ctx, func(ctx context.Context, sc *spindle.Scope) error {
		sc.SetShield(true)
		c.scope = sc
		if c.Start != nil {
			err = c.Start(ctx, ready)
		} else {
			ready()
			err = c.Run(ctx)
		}
		if sc.Err() != nil && (err == sc.Err() || err == context.Cause(sc)) {
			return nil // its cancellation, in the words of package context
		}
		return err
	})
}

// cancel ends the child's task. Err of its scope does not report whether that was done: if Run was
// called in a scope that was cancelled before, it is set from the beginning.
func (c *child) cancel() {
	if c.scope != nil {
		c.scope.Cancel(errStopped)
	}
}

// nextPause returns the pause before the next restart.
func (c *child) nextPause(now time.Time, o Options) time.Duration {
	if now.Sub(c.began) >= o.Within {
		c.pauses.Reset()
	}
	return c.pauses.Next()
}
