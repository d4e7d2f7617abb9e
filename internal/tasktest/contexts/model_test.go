package contexts_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/short"
)

// TestContextLaws runs random programs of tasks, which open scopes in scopes, cancel
// and shield them and move their deadlines, and compare each scope with a model after
// every step. Meanwhile goroutines derive contexts from the same scopes and check that
// the laws of design 019 hold. SPINDLE_CONTEXTS=60s makes it last longer.
func TestContextLaws(t *testing.T) {
	lasts := time.Duration(short.Of(int(time.Second)))
	if d, err := time.ParseDuration(os.Getenv("SPINDLE_CONTEXTS")); err == nil {
		lasts = d
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := &watchers{t: t}
	var all sync.WaitGroup
	for i := range uint64(4) {
		all.Go(func() { w.watch(rand.New(rand.NewPCG(seed, i))) })
	}
	programs, steps := 0, 0
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		end := spindle.Now(ctx).Add(lasts)
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			for i := range uint64(4) {
				r := rand.New(rand.NewPCG(seed, 100+i))
				n.Go(func(ctx context.Context) error {
					for spindle.Now(ctx).Before(end) && !t.Failed() {
						p := &scopeProgram{t: t, r: r, w: w}
						p.play(ctx, ctx, 6)
						programs++
						steps += p.steps
						if err := spindle.Yield(ctx); err != nil {
							return err
						}
					}
					return nil
				})
			}
			return nil
		})
	})
	w.over.Store(true)
	all.Wait()
	if err != nil {
		t.Error(err)
	}
	w.pending.Wait()
	t.Logf("%d programs, %d steps, %d contexts, %d checks, %d functions called after the end",
		programs, steps, w.contexts.Load(), w.checks.Load(), w.called.Load())
}

// scopeProgram is a random program of one task. Its scopes are a chain, each inside the one
// before.
type scopeProgram struct {
	t     *testing.T
	r     *rand.Rand
	w     *watchers
	chain []*scopeModel
	steps int
}

// scopeModel is the expected state of a scope.
type scopeModel struct {
	scope    *spindle.Scope
	shielded bool
	canceled bool      // by Cancel
	deadline time.Time // its own; zero for none
	timed    bool      // has had a deadline
	std      context.Context
	limit    time.Time // the deadline that std has of its own; zero for none

	ended      bool
	err, cause error // what the context has ended with
}

// play opens a scope inside ctx and takes random steps in it. Under is a context of the
// same scope, which the next is opened with.
func (p *scopeProgram) play(ctx, under context.Context, depth int) {
	m := &scopeModel{}
	if under != ctx && under.Done() != ctx.Done() {
		m.std = under
		if limit, ok := under.Deadline(); ok {
			if outer, has := ctx.Deadline(); !has || !outer.Equal(limit) {
				m.limit = limit
			}
		}
	}
	body := func(ctx context.Context, s *spindle.Scope) error {
		m.scope = s
		p.chain = append(p.chain, m)
		defer func() { p.chain = p.chain[:len(p.chain)-1] }()
		p.w.publish(s)
		p.check("open")
		for range 1 + p.r.IntN(8) {
			p.step(ctx, depth)
		}
		return nil
	}
	switch p.r.IntN(6) {
	case 0:
		m.shielded = true
		spindle.Shield(under, func(ctx context.Context) error { return body(ctx, ctx.(*spindle.Scope)) })
	case 1:
		spindle.WithNursery(under, func(ctx context.Context, n *spindle.Nursery) error { return body(ctx, n.Scope()) })
	default:
		spindle.WithScope(under, body)
	}
	if m.scope.Err() == nil {
		p.t.Error("a scope that was left has not ended")
	}
}

// step changes one of the scopes at random, and checks all of them.
func (p *scopeProgram) step(ctx context.Context, depth int) {
	if p.t.Failed() {
		return
	}
	p.steps++
	at := p.r.IntN(len(p.chain))
	m, does := p.chain[at], ""
	switch p.r.IntN(12) {
	case 0:
		does = "cancel"
		cause := fmt.Errorf("cause %d", p.r.Uint64())
		m.scope.Cancel(cause)
		m.canceled = true
		p.end(at, context.Canceled, cause)
	case 1, 2:
		does, m.shielded = "shield", true
		m.scope.SetShield(true)
	case 3, 4:
		does, m.shielded = "unshield", false
		m.scope.SetShield(false)
		if at > 0 {
			p.inherit(at)
		}
	case 5:
		does = "deadline"
		when := spindle.Now(ctx).Add(time.Hour + time.Duration(p.r.IntN(1000))*time.Minute)
		if p.r.IntN(3) == 0 {
			when = spindle.Now(ctx).Add(time.Duration(p.r.IntN(2000)-100) * time.Microsecond)
		}
		m.scope.SetDeadline(when)
		m.deadline, m.timed = when, true
	case 6:
		does = "no deadline"
		m.scope.SetDeadline(time.Time{})
		m.deadline = time.Time{}
	case 7:
		does = "wait"
		p.wait(ctx)
	default:
		if depth == 0 {
			return
		}
		p.nest(ctx, depth)
		does = "leave"
	}
	p.check(fmt.Sprint(does, " ", at))
}

// nest opens a scope in the innermost one, through a derived context or not.
func (p *scopeProgram) nest(ctx context.Context, depth int) {
	under, cancel := ctx, func() {}
	switch p.r.IntN(6) {
	case 0:
		under = context.WithValue(ctx, contextKey("a"), depth)
	case 1:
		under, cancel = context.WithCancel(context.WithValue(ctx, contextKey("a"), depth))
	case 2:
		under, cancel = context.WithTimeoutCause(ctx, time.Duration(p.r.IntN(1500))*time.Microsecond, errCause)
	case 3:
		under, cancel = context.WithTimeout(ctx, 2*time.Hour)
	}
	p.play(ctx, under, depth-1)
	cancel()
}

// wait waits a little in the innermost scope, and checks whether that is cancelled.
func (p *scopeProgram) wait(ctx context.Context) {
	canceled, perhaps := false, false
	for _, m := range p.chain {
		if m.shielded {
			canceled, perhaps = false, false
		}
		canceled = canceled || m.canceled
		perhaps = perhaps || m.timed || m.std != nil
	}
	if canceled && p.r.IntN(8) > 0 {
		return // many cancelled waits in a row are slowed down
	}
	err := spindle.Sleep(ctx, time.Duration(p.r.IntN(300))*time.Microsecond)
	if err == nil && canceled || err != nil && !canceled && !perhaps {
		p.t.Errorf("a wait returned %v; cancelled: %v\n%v", err, canceled, p)
	}
}

// end ends a scope in the model, and those inside it that are not shielded.
func (p *scopeProgram) end(at int, err, cause error) {
	if m := p.chain[at]; !m.ended {
		m.ended, m.err, m.cause = true, err, cause
		if at+1 < len(p.chain) {
			p.inherit(at + 1)
		}
	}
}

// inherit ends a scope in the model if the one around it has ended; it may have ended
// on its own shortly before.
func (p *scopeProgram) inherit(at int) {
	outer, m := p.chain[at-1], p.chain[at]
	switch {
	case !outer.ended || m.shielded || m.ended:
	case m.endedAlone():
		p.end(at, m.scope.Err(), context.Cause(m.scope))
	default:
		p.end(at, outer.err, outer.cause)
	}
}

// endedAlone reports whether the scope can have ended by itself: its deadline has passed, or
// the context it was opened with has ended.
func (m *scopeModel) endedAlone() bool {
	err, cause := m.scope.Err(), context.Cause(m.scope)
	passed := !m.deadline.IsZero() && !time.Now().Before(m.deadline)
	return passed && err == context.DeadlineExceeded && cause == err ||
		m.std != nil && !m.shielded && err != nil && err == m.std.Err() && cause == context.Cause(m.std)
}

// check compares every scope with the model.
func (p *scopeProgram) check(after string) {
	var nearest time.Time
	earlier := func(when time.Time) {
		if !when.IsZero() && (nearest.IsZero() || when.Before(nearest)) {
			nearest = when
		}
	}
	for at, m := range p.chain {
		if m.shielded {
			nearest = time.Time{}
		} else {
			earlier(m.limit)
		}
		if at > 0 {
			p.inherit(at)
		}
		if !m.ended && m.endedAlone() {
			m.ended, m.err, m.cause = true, m.scope.Err(), context.Cause(m.scope)
		}
		if err, cause := m.scope.Err(), context.Cause(m.scope); err != m.err || cause != m.cause {
			p.t.Errorf("after %s, scope %d has the error %v and the cause %v\n%v", after, at, err, cause, p)
		}
		earlier(m.deadline)
		if when, ok := m.scope.Deadline(); ok == nearest.IsZero() || ok && !when.Equal(nearest) {
			p.t.Errorf("after %s, scope %d has the deadline %v, %v; want %v\n%v", after, at, when, ok, nearest, p)
		}
	}
}

func (p *scopeProgram) String() (text string) {
	for i, m := range p.chain {
		text += fmt.Sprintf("  scope %d: shielded %v, cancelled %v, deadline %v, opened with %v, ended with %v, %v\n",
			i, m.shielded, m.canceled, m.deadline, m.std, m.err, m.cause)
	}
	return text
}
