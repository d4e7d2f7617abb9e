package supervise

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spindleloop/spindle"
)

// supervisor keeps the children of a call of Run. Its task starts and stops them, one step
// at a time (drive), and whatever happens to a child in between is only noted. Loop
// goroutine only.
type supervisor struct {
	o        Options
	n        *spindle.Nursery
	children []*child    // in the order of starting
	failures []time.Time // of the last Within
	ending   bool        // no child is started any more
	failure  error       // why it gives up; nil otherwise
	late     []error     // failures of children while everything is ending
	changed  bool        // something was noted since the last step
	waiting  spindle.Lot // the task of the supervisor
}

// note wakes the supervisor's task for another step.
func (s *supervisor) note() {
	s.changed = true
	s.waiting.Wake(1)
}

// now returns the loop's time.
func (s *supervisor) now() time.Time { return spindle.Now(s.n.Scope()) }

// drive makes one step after the other, until all children are done.
func (s *supervisor) drive(ctx context.Context) error {
	for {
		s.changed = false
		next := s.step()
		if s.changed {
			continue // a child has ended, or is ready, at once
		}
		if !slices.ContainsFunc(s.children, func(c *child) bool { return c.phase != done }) {
			return nil
		}
		if err := s.wait(ctx, next); err != nil {
			return err
		}
	}
}

// wait waits for a note, or until next, if that is not zero.
func (s *supervisor) wait(ctx context.Context, next time.Time) error {
	wait := func(ctx context.Context) error { return s.waiting.Wait(ctx, "children") }
	if next.IsZero() {
		return wait(ctx)
	}
	_, err := spindle.MoveOnAfter(ctx, next.Sub(s.now()), wait)
	return err
}

// step stops the last child that is to be stopped, or else starts those that are due. It
// returns when the next one is due, zero for none.
func (s *supervisor) step() (next time.Time) {
	for _, c := range slices.Backward(s.children) {
		if c.alive() && c.stop {
			c.cancel()
			return time.Time{} // those before it wait until it has ended
		}
	}
	for _, c := range s.children {
		switch {
		case c.phase == starting:
			return time.Time{} // those after it wait until it is ready
		case c.phase != due:
		case c.at.After(s.now()):
			if next.IsZero() || c.at.Before(next) {
				next = c.at
			}
			if s.o.Strategy != OneForOne {
				return next // those after it may depend on it
			}
		default:
			s.start(c)
			if s.changed || c.phase == starting {
				return time.Time{}
			}
		}
	}
	return next
}

// start starts a child in a task of its own.
func (s *supervisor) start(c *child) {
	c.phase, c.began = starting, s.now()
	s.n.GoWith(spindle.TaskOptions{Name: c.title(), Eager: true}, func(ctx context.Context) error {
		returned := false
		defer func() {
			if !returned { // runtime.Goexit, which ends the nursery too
				c.phase, c.scope = done, nil
				s.note()
			}
		}()
		err := c.run(ctx, func() { s.ready(c) })
		returned = true
		s.ended(c, err)
		return nil
	})
}

// ready notes that a child has started.
func (s *supervisor) ready(c *child) {
	if c.phase == starting {
		c.phase = running
		s.note()
	}
}

// ended notes the end of a child.
func (s *supervisor) ended(c *child, err error) {
	stopped := c.stop
	c.phase, c.scope, c.stop = done, nil, false
	s.note()
	switch {
	case s.ending:
		if err != nil {
			s.late = append(s.late, fmt.Errorf("supervise: %s: %w", c.Name, err))
		}
	case stopped: // because of another child
		if err != nil {
			s.o.Log.Error("supervise: a child failed when it was stopped", "child", c.Name, "error", err)
		}
		if c.Restart != Never {
			c.phase = due
		}
	case c.Restart == Never:
		if err != nil {
			s.o.Log.Error("supervise: a child failed, and is not restarted", "child", c.Name, "error", err)
		}
	case err != nil:
		s.failed(c, err)
	case c.Restart == Always:
		s.failed(c, errReturned)
	}
}

// failed arranges for the restart of a child, and of those that the strategy names.
func (s *supervisor) failed(c *child, err error) {
	now := s.now()
	s.failures = slices.DeleteFunc(append(s.failures, now), func(t time.Time) bool { return now.Sub(t) > s.o.Within })
	if s.o.MaxRestarts >= 0 && len(s.failures) > s.o.MaxRestarts {
		s.failure = &tooMany{c.Name, len(s.failures), s.o.Within, err}
		s.stopAll()
		return
	}
	pause := c.nextPause(now, s.o)
	s.o.Log.Warn("supervise: a child failed, and is restarted", "child", c.Name, "error", err, "pause", pause, "restart", c.restarts+1)
	c.phase = due
	first := slices.Index(s.children, c)
	for i, other := range s.children {
		affected := other == c || s.o.Strategy == OneForAll || s.o.Strategy == RestForOne && i > first
		if !affected || other.phase == done {
			continue
		}
		other.stop = other.alive()
		other.at = now.Add(pause)
		if other.began != (time.Time{}) {
			other.restarts++
		}
	}
}

// stopAll makes the following steps stop all children, the last one first. Each shield gets
// the deadline by which its child must have ended, so that the run waits for it.
func (s *supervisor) stopAll() {
	s.ending = true
	deadline := s.now()
	for _, c := range slices.Backward(s.children) {
		if !c.alive() {
			c.phase = done
			continue
		}
		c.stop = true
		deadline = deadline.Add(c.StopWithin)
		c.scope.SetDeadline(deadline)
	}
	s.note()
}
