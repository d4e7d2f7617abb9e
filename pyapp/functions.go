package pyapp

import (
	"context"
	"fmt"
	"iter"
	"reflect"

	"github.com/fxamacker/cbor/v2"
	"github.com/spindleloop/spindle/cosync"
)

// Handle makes a Go function callable from the Python code of app, by its name:
//
//	pyapp.Handle(app, "price", func(ctx context.Context, item Item) (float64, error) { … })
//
// In Python it is called with spindle.call("price", item) on a thread, and with
// await spindle.async_call("price", item) on the loop. One argument is decoded into In, none
// leaves it zero, and several fill the fields of a struct, or the elements of a slice.
//
// Fn runs on a goroutine, and may block. Later calls may run on the same goroutine, so fn must
// unlock its thread if it has locked it. If its last calls took less than 25 µs each, fn runs on the
// goroutine that reads what the worker sends; if fn then blocks, another goroutine reads after about two milliseconds.
// The context of fn ends when the Python code cancels the call or is cancelled, at the deadline of the call, and when the worker process ends.
// It has the trace of the Python code. Calls of Python functions with this context are part of the same chain, which
// may be 16 calls deep. An error of fn is a spindle.GoError in Python, with the type of the error and its message.
//
// A name has one function or inbox; a second one panics.
func Handle[In, Out any](app *App, name string, fn func(ctx context.Context, in In) (Out, error)) {
	app.provide(name, &function{call: func(ctx context.Context, args []cbor.RawMessage) ([]byte, error) {
		var in In
		if err := decodeArguments(args, &in); err != nil {
			return nil, err
		}
		out, err := fn(ctx, in)
		if err != nil {
			return nil, err
		}
		if b, ok := any(out).([]byte); ok && len(b) >= large {
			return b, errRaw
		}
		return encode("result", out)
	}})
}

// Receive makes spindle.send(name, value) in the Python code of app put values into an inbox.
// Python does not wait: values that do not fit wait in the worker's queue, in their order.
// When 1,024 values of a worker wait, send raises queue.Full. A value that does not fit into T
// is dropped, and the worker logs the error.
func Receive[T any](app *App, name string, to *cosync.Inbox[T]) {
	app.provide(name, &function{put: func(ctx context.Context, args []cbor.RawMessage) error {
		var v T
		if err := decodeArguments(args, &v); err != nil {
			return err
		}
		return to.Put(ctx, v)
	}})
}

// HandleStream is Handle for a function that returns many values. In Python they are an
// asynchronous iterator:
//
//	async for item in spindle.stream("prices", query): …
//
// The sequence is at most 256 items ahead of Python. If Python stops before the end, the
// context of fn ends, and so does the loop over its sequence.
func HandleStream[In, Item any](app *App, name string, fn func(ctx context.Context, in In) iter.Seq2[Item, error]) {
	app.provide(name, &function{stream: func(ctx context.Context, args []cbor.RawMessage, send func(item any) error) error {
		var in In
		if err := decodeArguments(args, &in); err != nil {
			return err
		}
		for item, err := range fn(ctx, in) {
			if err == nil {
				err = send(item)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}})
}

// function is what Python can call. One of its functions is set.
type function struct {
	pace   pace
	call   func(ctx context.Context, args []cbor.RawMessage) ([]byte, error)
	put    func(ctx context.Context, args []cbor.RawMessage) error
	stream func(ctx context.Context, args []cbor.RawMessage, send func(item any) error) error
}

func (a *App) provide(name string, f *function) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.functions[name]; ok {
		panic("pyapp: there are two functions with the name " + name)
	}
	if a.functions == nil {
		a.functions = map[string]*function{}
	}
	a.functions[name] = f
}

// decodeArguments decodes the arguments of a call into dst, a pointer.
func decodeArguments(args []cbor.RawMessage, dst any) error {
	switch len(args) {
	case 0:
		return nil
	case 1:
		return decode("args[0]", args[0], dst)
	}
	v := reflect.ValueOf(dst).Elem()
	switch v.Kind() {
	case reflect.Interface:
		if v.NumMethod() == 0 {
			return decodeEach(args, reflect.ValueOf(new([]any)).Elem(), v)
		}
	case reflect.Slice:
		return decodeEach(args, v, v)
	case reflect.Struct:
		return decodeFields(args, v)
	}
	return fmt.Errorf("%d arguments do not fit into a %v", len(args), v.Type())
}

// decodeEach decodes arguments into a slice like the given one, and stores it in to.
func decodeEach(args []cbor.RawMessage, slice, to reflect.Value) error {
	items := reflect.MakeSlice(slice.Type(), len(args), len(args))
	for i, arg := range args {
		if err := decode("args"+index(i), arg, items.Index(i).Addr().Interface()); err != nil {
			return err
		}
	}
	to.Set(items)
	return nil
}

// decodeFields decodes arguments into the exported fields of a struct.
func decodeFields(args []cbor.RawMessage, v reflect.Value) error {
	i := 0
	for field := range v.NumField() {
		if _, ok := fieldName(v.Type().Field(field)); !ok {
			continue
		}
		if i < len(args) {
			if err := decode("args"+index(i), args[i], v.Field(field).Addr().Interface()); err != nil {
				return err
			}
		}
		i++
	}
	if i < len(args) {
		return fmt.Errorf("%d arguments do not fit into the %d fields of a %v", len(args), i, v.Type())
	}
	return nil
}
