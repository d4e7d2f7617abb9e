package pyapp_test

import (
	"bytes"
	"context"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/spindleloop/spindle/internal/leak"
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
