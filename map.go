package spindle

import "context"

// ForEach calls fn for every item, in tasks, with at most limit calls at a time, and
// waits for all of them. Calls begin in the order of the items. The first failure
// cancels the calls under way and is returned; no further ones begin. It panics if the
// limit is below 1.
func ForEach[T any](ctx context.Context, limit int, items []T, fn func(context.Context, T) error) error {
	return forEach(ctx, "ForEach", limit, len(items), codeOf(fn), func(ctx context.Context, i int) error {
		return fn(ctx, items[i])
	})
}

// Map is ForEach for a function with a result. It returns the results in the order of
// the items.
func Map[T, R any](ctx context.Context, limit int, items []T, fn func(context.Context, T) (R, error)) ([]R, error) {
	results := make([]R, len(items))
	err := forEach(ctx, "Map", limit, len(items), codeOf(fn), func(ctx context.Context, i int) (err error) {
		results[i], err = fn(ctx, items[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// forEach calls call with 0 to n-1. Each task takes the next number when it has done
// one, so that there are never more tasks than may run.
func forEach(ctx context.Context, op string, limit, n int, code uintptr, call func(context.Context, int) error) error {
	if limit < 1 {
		panic("spindle: " + op + " with a limit below 1")
	}
	next := 0
	return WithNursery(ctx, func(ctx context.Context, nursery *Nursery) error {
		for range min(limit, n) {
			nursery.start(TaskOptions{code: code}, func(ctx context.Context) error {
				for next < n {
					i := next
					next++
					if err := call(ctx, i); err != nil {
						return err
					}
					if err := Checkpoint(ctx); err != nil { // a call need not wait
						return err
					}
				}
				return nil
			})
		}
		return nil
	})
}
