package web

import (
	"net/http"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/internal/onloop"
	"github.com/spindleloop/spindle/loop"
)

// await calls begin on the loop and waits until begin's done was called, on the loop, once.
// The caller is a task of the loop or any other goroutine.
func (st *loopState) await(what string, begin func(done func(error))) error {
	call := begin
	if !st.l.Owns() {
		call = func(done func(error)) {
			begin(func(err error) {
				done(err)
				st.yieldSoon() // for the goroutine that waited
			})
		}
	}
	result, err := awaitOn(st.l, what, call)
	if err != nil {
		return http.ErrServerClosed
	}
	return result
}

// awaitOn is await on any loop. It fails with closed if the loop closes before.
func awaitOn(l *loop.Loop, what string, begin func(done func(error))) (result, closed error) {
	if l.Owns() {
		return awaitInTask(l, what, begin), nil
	}
	return onloop.Call(l, nil, begin)
}

// waiter is a call that waits until done is called.
type waiter struct{ done func(error) }

// awaitIn is await for a place that holds one waiter: begin stores its waiter in place, or
// calls the waiter's done. awaitIn removes the waiter from place however the wait ends,
// also by a panic.
func (st *loopState) awaitIn(place **waiter, what string, begin func(w *waiter)) error {
	var w waiter
	defer func() {
		if st.l.Owns() && *place == &w {
			*place = nil
		}
	}()
	return st.await(what, func(done func(error)) {
		w.done = done
		begin(&w)
	})
}

// awaitInTask is await in a task.
func awaitInTask(l *loop.Loop, what string, begin func(done func(error))) error {
	ctx := coro.Here(l)
	if ctx == nil {
		panic("web: a request or response is used in a callback of the loop; start a task")
	}
	over := false
	var result error
	var waker spindle.Waker
	begin(func(err error) {
		over, result = true, err
		waker.Wake(nil)
	})
	var err error
	waker, err = spindle.NewWaker(ctx)
	switch {
	case over && err == nil:
		waker.Pass()
		fallthrough
	case over:
		return result // the result counts, even if ctx is cancelled
	case err != nil:
		return err
	}
	if err := waker.Park(ctx, what, spindle.AbortFunc(func() bool { return !over })); err != nil {
		return err
	}
	return result
}

// do calls fn on the loop and waits until it returns.
func (st *loopState) do(fn func() error) error {
	if st.l.Owns() {
		return fn()
	}
	return st.await("the loop", func(done func(error)) { done(fn()) })
}
