package sock_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/spindleloop/spindle/loop"
)

// TestTold: in order, never inside the call, each once, also when one panics and
// when some are told in the meantime.
func TestTold(t *testing.T) {
	_, h := newFake(t)
	var told, want []int
	n := 0
	var tell func()
	tell = func() {
		n++
		i := n
		want = append(want, i)
		h.L.CallSoonWith(loop.RunAtClose, func() {
			told = append(told, i)
			if i%3 == 0 && n < 500 {
				tell()
				tell()
			}
			if i%50 == 0 {
				panic("oops")
			}
		})
	}
	for range 300 {
		tell()
	}
	if len(told) != 0 {
		t.Fatal("told inside the call")
	}
	for h.L.Stats().Ready > 0 {
		var panicked *loop.PanicError
		if _, err := h.L.RunOnce(0); err != nil && !errors.As(err, &panicked) {
			t.Fatal(err)
		}
	}
	if !slices.Equal(told, want) {
		t.Errorf("told %v", told)
	}
}

// TestToldAtTheLoopsEnd: callbacks that must run do, and Close reports nothing.
func TestToldAtTheLoopsEnd(t *testing.T) {
	_, h := newFake(t)
	var told []int
	for i := range 3 {
		h.L.CallSoonWith(loop.RunAtClose, func() {
			told = append(told, i)
			if i == 0 {
				h.L.CallSoonWith(loop.RunAtClose, func() { told = append(told, 9) })
			}
		})
	}
	if err := h.L.Close(); err != nil {
		t.Error(err)
	}
	if !slices.Equal(told, []int{0, 1, 2, 9}) {
		t.Errorf("told %v", told)
	}
}

// TestListenAtTheLoopsEnd: who begins to listen while the loop is closed leaves
// nothing open.
func TestListenAtTheLoopsEnd(t *testing.T) {
	f, h := newFake(t)
	h.L.CallSoonWith(loop.RunAtClose, func() {
		f.open[7] = true
		if _, err := h.Listen(7, nil, nil); err != nil {
			t.Error(err)
		}
	})
	if err := h.L.Close(); err != nil || f.open[7] {
		t.Errorf("open %v, %v", f.open, err)
	}
}
