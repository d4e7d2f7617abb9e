package sock_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/loop"
)

// TestCallbacksRunInOrder: callbacks queued with RunAtClose run in order, once each
// and never inside the call, even if some panic or queue more.
func TestCallbacksRunInOrder(t *testing.T) {
	_, r := newFake(t)
	var ran, want []int
	n := 0
	var queue func()
	queue = func() {
		n++
		i := n
		want = append(want, i)
		r.L.Internal().CallSoon(atclose.Run, func() {
			ran = append(ran, i)
			if i%3 == 0 && n < 500 {
				queue()
				queue()
			}
			if i%50 == 0 {
				panic("oops")
			}
		})
	}
	for range 300 {
		queue()
	}
	if len(ran) != 0 {
		t.Fatal("a callback ran inside CallSoonWith")
	}
	for r.L.Stats().Ready > 0 {
		var panicked *loop.PanicError
		if _, err := r.L.RunOnce(0); err != nil && !errors.As(err, &panicked) {
			t.Fatal(err)
		}
	}
	if !slices.Equal(ran, want) {
		t.Errorf("callbacks ran in order %v, want %v", ran, want)
	}
}

// TestCallbacksRunAtClose: callbacks queued with RunAtClose run when the loop closes,
// and Close returns no error.
func TestCallbacksRunAtClose(t *testing.T) {
	_, r := newFake(t)
	var ran []int
	for i := range 3 {
		r.L.Internal().CallSoon(atclose.Run, func() {
			ran = append(ran, i)
			if i == 0 {
				r.L.Internal().CallSoon(atclose.Run, func() { ran = append(ran, 9) })
			}
		})
	}
	if err := r.L.Close(); err != nil {
		t.Error(err)
	}
	if !slices.Equal(ran, []int{0, 1, 2, 9}) {
		t.Errorf("ran %v", ran)
	}
}

// TestListenWhileLoopCloses: a listener made while the loop closes is closed too.
func TestListenWhileLoopCloses(t *testing.T) {
	f, r := newFake(t)
	r.L.Internal().CallSoon(atclose.Run, func() {
		f.open[7] = true
		if _, err := r.Listen(7, nil, nil); err != nil {
			t.Error(err)
		}
	})
	if err := r.L.Close(); err != nil || f.open[7] {
		t.Errorf("open %v, %v", f.open, err)
	}
}
