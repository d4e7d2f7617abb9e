package loop_test

import (
	"slices"
	"testing"

	"github.com/spindleloop/spindle/loop"
)

func TestCurrentIsTheLoopOfTheCaller(t *testing.T) {
	a, b := newLoop(t, loop.Options{}), newLoop(t, loop.Options{})
	if loop.Internal().Current() != nil {
		t.Error("Current is not nil before a loop runs")
	}
	for _, l := range []*loop.Loop{a, b} {
		elsewhere := make(chan *loop.Loop)
		l.CallSoon(func() {
			if loop.Internal().Current() != l {
				t.Error("Current in a callback is another loop")
			}
			go func() { elsewhere <- loop.Internal().Current() }()
			if <-elsewhere != nil {
				t.Error("Current on a goroutine that a callback started is not nil")
			}
			l.Stop()
		})
		if err := l.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if loop.Internal().Current() != nil {
		t.Error("Current is not nil after the loops ran")
	}
}

// TestLoopThatDoesNotRunIsForeignToNone checks before it runs, and after Close.
func TestLoopThatDoesNotRunIsForeignToNone(t *testing.T) {
	l := newLoop(t, loop.Options{})
	check := func(when string) {
		if l.Internal().Foreign() || l.Owns() {
			t.Errorf("%s: foreign %v, owns %v", when, l.Internal().Foreign(), l.Owns())
		}
	}
	check("before Run")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	check("after Close")
}

// TestCurrentWithOthersThatOpenAndClose asks while the list of loops changes.
func TestCurrentWithOthersThatOpenAndClose(t *testing.T) {
	l := newLoop(t, loop.Options{})
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			other, err := loop.New(loop.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			if loop.Internal().Current() != nil {
				t.Error("Current is not nil on a goroutine that runs no loop")
			}
			if err := other.Close(); err != nil {
				t.Error(err)
			}
		}
	}()
	l.CallSoon(func() {
		for range 1000 {
			if loop.Internal().Current() != l {
				t.Error("Current in a callback is another loop")
				break
			}
			if !slices.Contains(loop.Internal().Open(), l) {
				t.Error("Open is without a loop that runs")
				break
			}
		}
		l.Stop()
	})
	if err := l.Run(t.Context()); err != nil {
		t.Error(err)
	}
	close(stop)
	<-stopped
}
