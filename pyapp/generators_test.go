package pyapp_test

import (
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/pyapp"
)

func exists(file string) func() bool {
	return func() bool { _, err := os.Stat(file); return err == nil }
}

func TestStreamsOfPython(t *testing.T) {
	app := prepare(t, &pyapp.App{})
	for _, target := range []string{"back:count", "back:async_count", "back:async_pages"} {
		for _, n := range []int{0, 1, 255, 256, 257, 5000} {
			next := 0
			for got, err := range pyapp.Stream[int](t.Context(), app, target, n) {
				if err != nil || got != next {
					t.Fatalf("%s(%d): %d instead of %d, %v", target, n, got, next, err)
				}
				next++
			}
			if next != n {
				t.Errorf("%s(%d): %d items", target, n, next)
			}
		}
	}
	err := spindle.Run(t.Context(), func(ctx context.Context) error { // in a task
		sum := 0
		for got, err := range pyapp.Stream[int](ctx, app, "back:async_count", 1000) {
			if err != nil {
				return err
			}
			sum += got
		}
		if sum != 1000*999/2 {
			t.Error(sum)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestEndOfAStream: the generator is closed when the loop ends, or its context.
func TestEndOfAStream(t *testing.T) {
	app := prepare(t, &pyapp.App{})
	for _, target := range []string{"back:endless", "back:async_endless"} {
		note := filepath.Join(t.TempDir(), "note")
		n := 0
		for got, err := range pyapp.Stream[int](t.Context(), app, target, note) {
			if n++; err != nil || got != n-1 {
				t.Fatal(got, n, err)
			}
			if n == 1000 {
				break
			}
		}
		until.Holds(t, exists(note))
	}
	for _, target := range []string{"back:endless", "back:async_endless", "back:waits"} {
		note := filepath.Join(t.TempDir(), "note")
		ctx, cancel := context.WithCancel(t.Context())
		var failed error
		for _, err := range pyapp.Stream[int](ctx, app, target, note) {
			cancel()
			failed = err
		}
		cancel()
		if !errors.Is(failed, context.Canceled) {
			t.Error(target, failed)
		}
		until.Holds(t, exists(note))
	}
}

// TestStreamSendsWhatThereIs: an item does not wait for the next one.
func TestStreamSendsWhatThereIs(t *testing.T) {
	app := prepare(t, &pyapp.App{})
	note := filepath.Join(t.TempDir(), "note")
	n := 0
	for got, err := range pyapp.Stream[int](t.Context(), app, "back:blocks", note) {
		if n++; err != nil || got != n {
			t.Fatal(got, n, err)
		}
		if err := os.WriteFile(note, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n != 2 {
		t.Error(n)
	}
}

func TestErrorsOfStreams(t *testing.T) {
	app := prepare(t, &pyapp.App{})
	last := func(target string, args ...any) (n int, err error) {
		for _, err = range pyapp.Stream[int](t.Context(), app, target, args...) {
			if err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	}
	failed := (*pyapp.Error)(nil)
	if n, err := last("back:fails", 300); n != 300 || !errors.As(err, &failed) || failed.Type != "ValueError" || failed.Target != "back:fails" {
		t.Error(n, err)
	}
	if n, err := last("back:mixed"); n != 2 || err == nil || err.Error() != "pyapp: items[2]: Python's str does not fit into Go's int" {
		t.Error(n, err)
	}
	if _, err := last("functions:add", 1, 2); !errors.As(err, &failed) || failed.Type != "TypeError" {
		t.Error(err)
	}
	if _, err := last("back:nothing_such"); !errors.Is(err, pyapp.ErrNoAttribute) {
		t.Error(err)
	}
}

func counting(ctx context.Context, n int) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		for i := range n {
			if !yield(i, nil) {
				return
			}
		}
	}
}

func TestStreamsOfGo(t *testing.T) {
	app := prepare(t, &pyapp.App{})
	pyapp.HandleStream(app, "count", counting)
	for _, n := range []int{0, 1, 256, 257, 5000} {
		if sum, err := pyapp.Call[int](t.Context(), app, "back:total", "count", n); err != nil || sum != n*(n-1)/2 {
			t.Error(n, sum, err)
		}
	}
	ended := make(chan error, 1)
	var ahead atomic.Int64
	pyapp.HandleStream(app, "endless", func(ctx context.Context, _ any) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			defer func() { ended <- context.Cause(ctx) }()
			for i := 0; yield(i, nil); i++ {
				ahead.Store(int64(i))
			}
		}
	})
	if items, err := pyapp.Call[[]int](t.Context(), app, "back:first", "endless", 3); err != nil || len(items) != 3 || items[2] != 2 {
		t.Error(items, err)
	}
	if err := <-ended; err != context.Canceled {
		t.Error(err)
	}
	ahead.Store(0)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := pyapp.Call[any](ctx, app, "back:slow", "endless")
		failed <- err
	}()
	until.Holds(t, func() bool { return ahead.Load() >= 200 })
	if _, err := pyapp.Call[any](t.Context(), app, "functions:prepare"); err != nil { // others are served
		t.Error(err)
	}
	cancel()
	<-failed
	<-ended
	if n := ahead.Load(); n > 257 {
		t.Error(n, "items were sent without being allowed")
	}
}

// TestStreamOfGoSendsWhatThereIs checks that items reach Python before the next one is made: one that comes after a while,
// and many that come together.
func TestStreamOfGoSendsWhatThereIs(t *testing.T) {
	app := prepare(t, &pyapp.App{})
	seen := make(chan int, 1)
	pyapp.Handle(app, "seen", func(ctx context.Context, n int) (any, error) {
		seen <- n
		return nil, nil
	})
	pyapp.HandleStream(app, "bursts", func(ctx context.Context, _ any) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			for range 5 {
				for _, size := range []int{1, 20} {
					for n := range size {
						if !yield(n, nil) {
							return
						}
					}
					for n := range size {
						select {
						case got := <-seen:
							if got != n {
								t.Errorf("%d instead of %d", got, n)
							}
						case <-ctx.Done():
							return
						}
					}
				}
			}
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if _, err := pyapp.Call[any](ctx, app, "back:report", "bursts", "seen"); err != nil {
		t.Error(err)
	}
}

// TestItemsAreCountedBeyond32Bits checks that a credit may begin again from 0, and that an old one takes nothing back.
func TestItemsAreCountedBeyond32Bits(t *testing.T) {
	for _, c := range [][3]uint32{{256, 384, 384}, {384, 256, 384}, {1<<32 - 100, 28, 28}, {28, 1<<32 - 100, 28}} {
		if got := pyapp.Allow(c[0], c[1]); got != c[2] {
			t.Errorf("%d after %d and %d", got, c[0], c[1])
		}
	}
}

func TestErrorsOfStreamsOfGo(t *testing.T) {
	app := prepare(t, &pyapp.App{MaxCallBytes: 1 << 20})
	provide(app)
	pyapp.HandleStream(app, "count", counting)
	pyapp.HandleStream(app, "failing", func(ctx context.Context, n int) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			for i := range n {
				if !yield(i, nil) {
					return
				}
			}
			yield(0, errors.New("no more"))
		}
	})
	pyapp.HandleStream(app, "large", func(ctx context.Context, n int) iter.Seq2[[]byte, error] {
		return func(yield func([]byte, error) bool) {
			_ = yield(make([]byte, n-5), nil) && yield(make([]byte, 3*n), nil)
		}
	})
	pyapp.HandleStream(app, "mixed", func(ctx context.Context, _ any) iter.Seq2[any, error] {
		return func(yield func(any, error) bool) {
			_ = yield(1, nil) && yield(2, nil) && yield(3, nil) && yield([]any{"fits", make(chan int)}, nil)
		}
	})
	for want, call := range map[string][]any{
		"items[3][1]: a chan int has no counterpart": {"back:total", "mixed"},
		"no more": {"back:total", "failing", 10},
		"items[1] has 3145733 bytes; MaxCallBytes is 1048576": {"back:exhaust", "large", 1 << 20},
		"spindle.stream is for functions of HandleStream":     {"back:total", "add", 1, 2},
		"has no function": {"back:total", "nothing"},
		"spindle.stream is for functions of HandleStream, and only": {"back:call", "count", 1},
	} {
		_, err := pyapp.Call[any](t.Context(), app, call[0].(string), call[1:]...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
}
