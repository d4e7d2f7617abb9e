package pyapp

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/fxamacker/cbor/v2"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/relay"
)

// Stream calls a Python generator function, or asynchronous generator function, and yields what
// it yields. Target, arguments and errors are as with Call. Each loop over the result is a call.
//
//	for word, err := range pyapp.Stream[string](ctx, app, "text:words", name) { … }
//
// The generator is at most 256 items ahead of the loop; then it waits. If the loop ends before the
// generator, or ctx ends, the generator is closed, and its finally clauses run. A generator that
// is not asynchronous runs on a thread, and is closed when it yields next.
//
// After an error the loop ends.
func Stream[T any](ctx context.Context, app *App, target string, args ...any) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		read := 0
		err := app.stream(ctx, target, args, func(batch []byte) (int, bool, error) {
			items, err := decodeBatch[T](batch, read)
			read += len(items)
			for _, item := range items {
				if !yield(item, nil) {
					return 0, false, nil
				}
			}
			return len(items), err == nil, err
		})
		if err != nil {
			var none T
			yield(none, err)
		}
	}
}

// decodeBatch decodes the items of a frame. Before are those that came earlier. If one does not
// fit, it returns the items before that one and an error.
func decodeBatch[T any](batch []byte, before int) ([]T, error) {
	var items []T
	if decoding.Unmarshal(batch, &items) == nil {
		return items, nil
	}
	var parts []cbor.RawMessage
	if err := decoding.Unmarshal(batch, &parts); err != nil {
		return nil, fmt.Errorf("pyapp: malformed items: %w", err)
	}
	items = items[:0]
	for i, part := range parts {
		var item T
		if err := decode("items"+index(before+i), part, &item); err != nil {
			return items, fmt.Errorf("pyapp: %w", err)
		}
		items = append(items, item)
	}
	return items, nil
}

// stream calls a generator function. Take gets each batch of items. It returns how many there were, and
// whether to go on.
func (a *App) stream(ctx context.Context, target string, args []any, take func([]byte) (n int, more bool, err error)) error {
	in, err := a.arguments(target, args)
	if err != nil {
		return err
	}
	w, err := a.acquire(ctx)
	if err != nil {
		return err
	}
	defer a.release(w)
	err = w.stream(ctx, in, take)
	if failed := (*Error)(nil); errors.As(err, &failed) {
		failed.Target = target
	}
	return err
}

func (w *worker) stream(ctx context.Context, in arguments, take func([]byte) (int, bool, error)) error {
	id, waiting := w.a.newCall(w, window+2) // each frame has an item, and the end is one more
	err := w.begin(ctx, &relay.Envelope{Kind: relay.KindRequest, ID: id, Seq: window}, in)
	ended := err != nil // there is nothing to cancel
	defer func() {
		if !ended {
			w.post(&relay.Envelope{Kind: relay.KindCancel, ID: id})
		}
		w.forget(id)
	}()
	for allowed, read := uint32(window), uint32(0); err == nil; {
		var a answer
		if a, err = waiting.Get(ctx); err != nil {
			break
		}
		if a.err != nil || !a.item {
			ended = true
			return a.err
		}
		n, more, err := take(a.body)
		if err != nil || !more {
			return err
		}
		if read += uint32(n); allowed-read <= window/2 {
			allowed = read + window
			w.post(&relay.Envelope{Kind: relay.KindCredit, ID: id, Seq: allowed})
		}
	}
	if errors.Is(err, cosync.ErrClosed) {
		err = ErrCrashed
	}
	return err
}
