package pyapp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/relay"
)

// Named are keyword arguments of a call, as its last argument:
//
//	n, err := pyapp.Call[int](ctx, app, "text:count", "words", pyapp.Named{"limit": 10})
type Named map[string]any

// Call calls a Python function in a worker of app and returns its result. Target names the
// function, as "module:function"; the function may be an attribute of an attribute. Arguments
// and result are passed as JSON: T is what encoding/json decodes the result into. A result may
// also be a dataclass, a Pydantic model, a date or bytes.
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
	if err := json.Unmarshal(body, &result); err != nil {
		return result, fmt.Errorf("pyapp: %s: the result does not fit: %w", target, err)
	}
	return result, nil
}

// call is a call without the decoding of its result.
func (a *App) call(ctx context.Context, target string, args []any) ([]byte, error) {
	request := struct {
		Target string `json:"target"`
		Args   []any  `json:"args"`
		Named  Named  `json:"named,omitempty"`
	}{Target: target, Args: args}
	if n := len(args); n > 0 {
		if named, ok := args[n-1].(Named); ok {
			request.Args, request.Named = args[:n-1], named
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(&request); err != nil {
		return nil, fmt.Errorf("pyapp: %s: arguments: %w", target, err)
	}
	if b.Len() > a.maxCallBytes() {
		return nil, fmt.Errorf("pyapp: %s: arguments of %d bytes; MaxCallBytes is %d", target, b.Len(), a.maxCallBytes())
	}
	w, err := a.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer a.release(w)
	body, err := w.call(ctx, b.Bytes())
	if failed := (*Error)(nil); errors.As(err, &failed) {
		failed.Target = target
	}
	return body, err
}

// call sends a call to the worker and waits for its answer.
func (w *worker) call(ctx context.Context, body []byte) ([]byte, error) {
	id, waiting := w.a.newCall(w)
	e := relay.Envelope{Kind: relay.KindRequest, ID: id, Trace: relay.TraceOf(ctx), Body: body}
	frame, err := relay.AppendFrame(nil, &e, time.Time{})
	if err == nil {
		err = w.out.Put(ctx, frame)
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
	w.a.mu.Lock()
	delete(w.calls, id)
	w.a.mu.Unlock()
	return nil, err
}
