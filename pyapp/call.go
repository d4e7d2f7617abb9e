package pyapp

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fxamacker/cbor/v2"

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
// If the function raises an exception, Call fails with an *Error. If ctx ends, Call returns its
// cause at once, and the coroutine is cancelled (asyncio.CancelledError). A thread cannot be
// cancelled; its result is dropped. If the worker process ends, Call fails with ErrCrashed.
func Call[T any](ctx context.Context, app *App, target string, args ...any) (result T, err error) {
	a, err := app.call(ctx, target, args)
	if err != nil {
		return result, err
	}
	if err := a.decode(&result); err != nil {
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

// arguments are the body of a call.
type arguments struct {
	body  []byte
	blobs [][]byte // large ones, which are sent before, and not copied
}

// arguments returns the body of a call.
func (a *App) arguments(target string, args []any) (out arguments, err error) {
	r := request{Target: target, Args: args}
	if n := len(args); n > 0 {
		if named, ok := args[n-1].(Named); ok {
			r.Args, r.Named = args[:n-1], named
		}
	}
	size := 0
	for i, arg := range r.Args {
		if b, ok := arg.([]byte); ok && len(b) >= large {
			if out.blobs == nil {
				r.Args = slices.Clone(r.Args)
			}
			r.Args[i] = cbor.Tag{Number: tagBlob, Content: len(out.blobs)}
			out.blobs = append(out.blobs, b)
			size += len(b)
		}
	}
	if out.body, err = encoding.Marshal(&r); err != nil {
		err = locateArguments(&r, err)
	} else if size += len(out.body); size > a.maxCallBytes() {
		err = fmt.Errorf("arguments of %d bytes; MaxCallBytes is %d", size, a.maxCallBytes())
	}
	if err != nil {
		return out, fmt.Errorf("pyapp: %s: %w", target, err)
	}
	return out, nil
}

// call is a call without the decoding of its result.
func (a *App) call(ctx context.Context, target string, args []any) (result answer, err error) {
	in, err := a.arguments(target, args)
	if err != nil {
		return result, err
	}
	w, err := a.acquire(ctx)
	if err != nil {
		return result, err
	}
	defer a.release(w)
	result, err = w.call(ctx, in)
	if failed := (*Error)(nil); errors.As(err, &failed) {
		failed.Target = target
	}
	return result, err
}

// begin sends a request with its arguments.
func (w *worker) begin(ctx context.Context, e *relay.Envelope, in arguments) error {
	for _, b := range in.blobs {
		f, err := newFrame(&relay.Envelope{Kind: relay.KindItem, ID: e.ID, Headers: map[string]string{opHeader: opBlob}}, b)
		if err == nil {
			err = w.out.put(ctx, f)
		}
		if err != nil {
			w.post(&relay.Envelope{Kind: relay.KindCancel, ID: e.ID}) // drops those that were sent
			return err
		}
	}
	chain(ctx, e)
	f, err := newFrame(e, in.body)
	if err == nil {
		err = w.out.put(ctx, f)
	}
	if err != nil && in.blobs != nil {
		w.post(&relay.Envelope{Kind: relay.KindCancel, ID: e.ID})
	}
	return err
}

// call sends a call to the worker and waits for its answer.
func (w *worker) call(ctx context.Context, in arguments) (a answer, err error) {
	id, waiting := w.a.newCall(w, 1)
	if err = w.begin(ctx, &relay.Envelope{Kind: relay.KindRequest, ID: id}, in); err == nil {
		if a, err = waiting.Get(ctx); err == nil {
			return a, a.err
		}
		w.post(&relay.Envelope{Kind: relay.KindCancel, ID: id})
	}
	if errors.Is(err, cosync.ErrClosed) {
		err = ErrCrashed
	}
	w.forget(id)
	return a, err
}

// forget drops the answers to a call.
func (w *worker) forget(id uint64) {
	w.a.mu.Lock()
	defer w.a.mu.Unlock()
	delete(w.calls, id)
}
