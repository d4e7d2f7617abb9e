package pyapp

import (
	"context"
	"errors"
	"fmt"

	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/relay"
)

// Named are keyword arguments of a call, as its last argument:
//
//	n, err := pyapp.Call[int](ctx, app, "text:count", "words", pyapp.Named{"limit": 10})
type Named map[string]any

// Call calls a Python function in a worker of app and returns its result. Target names the
// function, as "module:function"; the function may be an attribute of an attribute. Arguments
// and result are converted as the table in the guide says: bytes, integers of any size, times,
// sets and structs have counterparts. An argument that has none, or a result that does not fit
// into T, is an error with the path of the value, such as "args[1].Items[3]".
//
// A coroutine function runs on the worker's loop, as the handlers of its app do. Any other
// function runs on a thread, and may block.
//
// If the function raises an exception, Call fails with an *Error. If ctx ends, Call
// returns its cause at once, and the coroutine is cancelled (asyncio.CancelledError). A thread cannot be cancelled;
// its result is dropped. If the worker process ends, Call fails with ErrCrashed.
func Call[T any](ctx context.Context, app *App, target string, args ...any) (result T, err error) {
	body, err := app.call(ctx, target, args)
	if err != nil {
		return result, err
	}
	if err := decode("result", body, &result); err != nil {
		return result, fmt.Errorf("pyapp: %s: %w", target, err)
	}
	return result, nil
}

// request is the body of a request.
type request struct {
	_      struct{} `cbor:",toarray"`
	Target string
	Args   []any
	Named  Named
}

// body returns the body of a call.
func (a *App) body(target string, args []any) ([]byte, error) {
	r := request{Target: target, Args: args}
	if n := len(args); n > 0 {
		if named, ok := args[n-1].(Named); ok {
			r.Args, r.Named = args[:n-1], named
		}
	}
	b, err := encoding.Marshal(&r)
	if err != nil {
		err = locateArguments(&r, err)
	} else if len(b) > a.maxCallBytes() {
		err = fmt.Errorf("arguments of %d bytes; MaxCallBytes is %d", len(b), a.maxCallBytes())
	}
	if err != nil {
		return nil, fmt.Errorf("pyapp: %s: %w", target, err)
	}
	return b, nil
}

// call is a call without the decoding of its result.
func (a *App) call(ctx context.Context, target string, args []any) ([]byte, error) {
	body, err := a.body(target, args)
	if err != nil {
		return nil, err
	}
	w, err := a.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer a.release(w)
	body, err = w.call(ctx, body)
	if failed := (*Error)(nil); errors.As(err, &failed) {
		failed.Target = target
	}
	return body, err
}

// call sends a call to the worker and waits for its answer.
func (w *worker) call(ctx context.Context, body []byte) ([]byte, error) {
	id, waiting := w.a.newCall(w, 1)
	e := relay.Envelope{Kind: relay.KindRequest, ID: id}
	chain(ctx, &e)
	f, err := newFrame(&e, body)
	if err == nil {
		err = w.out.Put(ctx, f)
	}
	if err == nil {
		var a answer
		if a, err = waiting.Get(ctx); err == nil {
			return a.body, a.err
		}
		w.post(&relay.Envelope{Kind: relay.KindCancel, ID: id})
	}
	if errors.Is(err, cosync.ErrClosed) {
		err = ErrCrashed
	}
	w.forget(id)
	return nil, err
}

// forget drops the answers to a call.
func (w *worker) forget(id uint64) {
	w.a.mu.Lock()
	defer w.a.mu.Unlock()
	delete(w.calls, id)
}
