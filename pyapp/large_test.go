package pyapp_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/pyapp"
)

// TestLargeBytes: they are the same in both directions, whatever they are decoded into.
func TestLargeBytes(t *testing.T) {
	app := prepare(t, &pyapp.App{MaxCallBytes: 8 << 20})
	pyapp.Handle(app, "echo", func(_ context.Context, b []byte) ([]byte, error) { return b, nil })
	type named []byte
	for _, size := range []int{64<<10 - 1, 64 << 10, 256 << 10, 1<<20 + 1, 3 << 20} {
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(i * 7 / 3)
		}
		same := func(what string, got []byte, err error) {
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%s: %d bytes instead of %d, %v", what, len(got), size, err)
			}
		}
		plain, err := pyapp.Call[[]byte](t.Context(), app, "back:echo", data)
		same("[]byte", plain, err)
		other, err := pyapp.Call[named](t.Context(), app, "back:echo", data)
		same("a named type", other, err)
		unknown, err := pyapp.Call[any](t.Context(), app, "back:echo", data)
		same("any", unknown.([]byte), err)
		both, err := pyapp.Call[[][]byte](t.Context(), app, "back:both", data, "x", data)
		if err != nil || len(both) != 2 {
			t.Fatal(len(both), err)
		}
		same("first", both[0], err)
		same("last", both[1], err)
		through, err := pyapp.Call[[]byte](t.Context(), app, "back:call", "echo", data)
		same("a Go function", through, err)
	}
	if _, err := pyapp.Call[any](t.Context(), app, "back:echo", make([]byte, 8<<20)); err == nil || !strings.Contains(err.Error(), "MaxCallBytes") {
		t.Error(err)
	}
	if _, err := pyapp.Call[any](t.Context(), app, "back:large", 8<<20+1); err == nil || !strings.Contains(err.Error(), "limit") {
		t.Error(err)
	}
}
