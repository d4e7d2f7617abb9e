package web

import (
	"net/http"

	"github.com/spindleloop/spindle/internal/onloop"
	"github.com/spindleloop/spindle/loop"
)

// await calls begin on the loop and waits until begin's done was called, on the loop, once.
// The caller is a task of any loop, or a goroutine that runs no loop.
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
	err := awaitOn(st.l, what, call)
	if err == loop.ErrClosed {
		return http.ErrServerClosed
	}
	return err
}

// awaitOn is await on any loop. It fails with loop.ErrClosed if the loop closes before.
func awaitOn(l *loop.Loop, what string, begin func(done func(error))) error {
	ctx, ok := onloop.Caller(l)
	if !ok {
		panic("web: a request or response is used in a callback of a loop; start a task")
	}
	result, err := onloop.Call(ctx, l, what, begin)
	if err != nil {
		return err
	}
	return result
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

// do calls fn on the loop and waits until it returns.
func (st *loopState) do(fn func() error) error {
	if st.l.Owns() {
		return fn()
	}
	return st.await("the loop", func(done func(error)) { done(fn()) })
}
