package pyapp_test

import (
	"bytes"
	"context"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/pyapp"
)

// TestGoroutinesOfCallsEnd checks that the goroutines of calls end with the App, even if a function has ended one of them.
func TestGoroutinesOfCallsEnd(t *testing.T) {
	interpreter := python(t)
	leak.Check(t, 4<<20)
	app := &pyapp.App{Dir: "testdata", Python: interpreter, ErrorLog: slog.New(slog.DiscardHandler)}
	pyapp.Handle(app, "next", func(_ context.Context, n int) (int, error) { return n + 1, nil })
	pyapp.Handle(app, "end", func(context.Context, any) (any, error) {
		runtime.Goexit()
		return nil, nil
	})
	var calls sync.WaitGroup
	for range 100 { // more than are kept
		calls.Go(func() {
			for range 3 {
				if _, err := pyapp.Call[any](t.Context(), app, "back:async_call", "end"); err == nil {
					t.Error("a function that has ended its goroutine returns")
				}
				if n, err := pyapp.Call[int](t.Context(), app, "back:async_call", "next", 1); n != 2 || err != nil { // its goroutine is kept
					t.Error(n, err)
				}
			}
		})
	}
	calls.Wait()
	if err := app.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestQuickFunctionThatBlocks checks that a function that was quick, and waits for another call now, does not keep that call
// from being read, and does not run on a goroutine that reads again soon.
func TestQuickFunctionThatBlocks(t *testing.T) {
	app := prepare(t, &pyapp.App{})
	for i := range 20 {
		freed := make(chan struct{})
		name := "gate " + strconv.Itoa(i)
		pyapp.Handle(app, name, func(ctx context.Context, free bool) (bool, error) {
			if !free {
				select {
				case <-freed:
					return true, nil
				case <-ctx.Done():
					return false, context.Cause(ctx)
				}
			}
			if pyapp.IsQuick(app, name) {
				t.Error("quick while it blocks")
			}
			close(freed)
			return true, nil
		})
		pyapp.MakeQuick(app, name)
		if ok, err := pyapp.Call[bool](t.Context(), app, "back:overtake", name); !ok || err != nil {
			t.Fatal(ok, err)
		}
		for range 50 {
			if _, err := pyapp.Call[bool](t.Context(), app, "back:async_call", name, false); err != nil {
				t.Fatal(err)
			}
		}
		if pyapp.IsQuick(app, name) {
			t.Error("quick soon after it has blocked")
		}
	}
}

// TestQuickFunctionThatEndsItsGoroutine checks that another goroutine reads in place of one that a function has ended.
func TestQuickFunctionThatEndsItsGoroutine(t *testing.T) {
	app := prepare(t, &pyapp.App{})
	provide(app)
	pyapp.Handle(app, "end", func(context.Context, any) (any, error) {
		runtime.Goexit()
		return nil, nil
	})
	for range 20 {
		pyapp.MakeQuick(app, "end")
		if _, err := pyapp.Call[any](t.Context(), app, "back:async_call", "end"); err == nil || !strings.Contains(err.Error(), "ended its goroutine") {
			t.Fatal(err)
		}
		if n, err := pyapp.Call[int](t.Context(), app, "back:async_call", "add", 1, 2); n != 3 || err != nil {
			t.Fatal(n, err)
		}
	}
}

// TestQuickFunctionsAtOnce calls quick functions that call Python, which calls them again, so their calls begin and end in every order.
func TestQuickFunctionsAtOnce(t *testing.T) {
	app := prepare(t, &pyapp.App{})
	provide(app)
	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() {
			for range 10 {
				pyapp.MakeQuick(app, "async down")
				pyapp.MakeQuick(app, "add")
				if n, err := pyapp.Call[int](t.Context(), app, "back:async_down", 3); n != 0 || err != nil {
					t.Error(n, err)
				}
				if n, err := pyapp.Call[int](t.Context(), app, "back:many", "add", 10); n != 55 || err != nil {
					t.Error(n, err)
				}
			}
		})
	}
	calls.Wait()
}

// TestFunctionBecomesQuick checks that the calls of a function that returns at once are noticed.
func TestFunctionBecomesQuick(t *testing.T) {
	app := prepare(t, &pyapp.App{})
	provide(app)
	until.Holds(t, func() bool {
		if n, err := pyapp.Call[int](t.Context(), app, "back:many", "add", 100); n != 5050 || err != nil {
			t.Fatal(n, err)
		}
		return pyapp.IsQuick(app, "add")
	})
}

// TestSmallCallsAreDecodedAsByTheCodec: what is decoded without it means the same.
func TestSmallCallsAreDecodedAsByTheCodec(t *testing.T) {
	bodies := []string{
		"", "\x82", "\x82\x60\x80", "\x82\x61a\x80", "\x82\x61a\x81\x01", "\x82\x61a\x81\xf6", "\x82\x61a\x81\x44abcd", "\x82\x61a\x82\x01\x02",
		"\x82\x61\xfc\x80", "\x82\x61a\x81", "\x82\x61a\x81\x44abc", "\x82\x61a\x80\x00", "\x82\x61a\x81\x01\x02", "\x82\x61a\xa0", "\x82\x41a\x80", "\x81\x61a", "\x83\x61a\x80\x80",
		"\x82\x78\x18aaaaaaaaaaaaaaaaaaaaaaaa\x80",
	}
	parts := []byte{0x82, 0x80, 0x81, 0x61, 'a', 0x01, 0xf6, 0x60, 0x41, 0xa0, 0xfc}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		b := []byte{0x82}
		for range r.IntN(7) {
			b = append(b, parts[r.IntN(len(parts))])
		}
		bodies = append(bodies, string(b))
	}
	cut := 0
	for _, body := range bodies {
		name, args, ok := pyapp.CutCall([]byte(body))
		if !ok {
			continue
		}
		cut++
		want, wanted, err := pyapp.DecodeCall([]byte(body))
		if err != nil || name != want || len(args) != len(wanted) || len(args) > 0 && !bytes.Equal(args[0], wanted[0]) {
			t.Errorf("%x: %q %x; the codec has %q %x, %v", body, name, args, want, wanted, err)
		}
	}
	if cut < 50 {
		t.Error(cut, "bodies were decoded")
	}
}
