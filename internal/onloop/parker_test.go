package onloop_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/onloop"
)

// place is a Parker as packages use it: a mutex guards it until it is woken.
type place struct {
	onloop.Parker
	mu     sync.Mutex
	waits  bool
	parked chan struct{} // receives a value when a wait begins
}

func newPlace() *place { return &place{parked: make(chan struct{}, 1)} }

func (p *place) wait(ctx context.Context) error {
	if err := p.Prepare(ctx, "refused"); err != nil {
		return err
	}
	p.mu.Lock()
	p.waits = true
	p.mu.Unlock()
	p.parked <- struct{}{}
	return p.Park(ctx, "the test", p)
}

// take reports whether the wait was under way, and ends what guards it.
func (p *place) take() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.waits
	p.waits = false
	return was
}

func (p *place) Abort() bool { return p.take() }

// waiters are the two kinds of callers that can wait.
var waiters = map[string]func(t *testing.T, fn func(ctx context.Context)){
	"a task": func(t *testing.T, fn func(ctx context.Context)) {
		if err := spindle.Run(t.Context(), func(ctx context.Context) error { fn(ctx); return nil }); err != nil {
			t.Error(err)
		}
	},
	"a goroutine": func(t *testing.T, fn func(ctx context.Context)) { fn(t.Context()) },
}

func TestWakeFromAGoroutine(t *testing.T) {
	for name, run := range waiters {
		t.Run(name, func(t *testing.T) {
			p := newPlace()
			const waits = 100
			done := make(chan struct{})
			go func() {
				defer close(done)
				for range waits {
					<-p.parked
					if !p.take() || !p.Wake() {
						t.Error("not woken")
					}
				}
			}()
			run(t, func(ctx context.Context) {
				for range waits {
					if err := p.wait(ctx); err != nil {
						t.Error(err)
					}
				}
			})
			<-done
		})
	}
}

// TestWakeOnTheLoop: a task wakes a task of its own loop without a turn through the inbox.
func TestWakeOnTheLoop(t *testing.T) {
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		p := newPlace()
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(p.wait)
			for !p.take() {
				if err := spindle.Yield(ctx); err != nil {
					return err
				}
			}
			p.Wake()
			if n := spindle.LoopOf(ctx).Internal().InboxLen(); n != 0 {
				t.Errorf("%d callbacks in the inbox", n)
			}
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
}

func TestCanceledPark(t *testing.T) {
	for name, run := range waiters {
		t.Run(name, func(t *testing.T) {
			run(t, func(ctx context.Context) {
				why := errors.New("why")
				for _, taken := range []bool{false, true} {
					p := newPlace()
					ctx, cancel := context.WithCancelCause(ctx)
					woken := make(chan struct{})
					go func() {
						defer close(woken)
						<-p.parked
						if !taken {
							cancel(why)
							return
						}
						p.take() // a result has come, and counts
						cancel(why)
						p.Wake()
					}()
					if err := p.wait(ctx); taken && err != nil || !taken && !errors.Is(err, why) {
						t.Errorf("with a result: %v; %v", taken, err)
					}
					<-woken
					if err := p.Prepare(ctx, "refused"); !errors.Is(err, why) {
						t.Errorf("Prepare after the end: %v", err)
					}
				}
			})
		})
	}
}

// TestPrepareDoesNotBlockALoop: a callback, and a task without its own context, cannot wait.
func TestPrepareDoesNotBlockALoop(t *testing.T) {
	var p onloop.Parker
	refused := func() (v any) {
		defer func() { v = recover() }()
		return p.Prepare(context.Background(), "refused")
	}
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		if v := refused(); v != "refused" {
			t.Errorf("in a task without its context: %v", v)
		}
		called := spindle.NewFuture[any](ctx)
		spindle.LoopOf(ctx).CallSoon(func() { called.Resolve(refused()) })
		if v, err := called.Await(ctx); v != "refused" || err != nil {
			t.Errorf("in a callback: %v, %v", v, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestWakeAfterTheLoopHasClosed: the task that waited is gone, and Wake reports it.
func TestWakeAfterTheLoopHasClosed(t *testing.T) {
	p := newPlace()
	err := spindle.Run(t.Context(), func(ctx context.Context) error { return p.Prepare(ctx, "refused") }) // closes its loop
	if err != nil {
		t.Fatal(err)
	}
	if p.Wake() {
		t.Error("woken")
	}
}
