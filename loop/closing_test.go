package loop_test

import (
	"errors"
	"testing"

	"github.com/spindleloop/spindle/loop"
)

var errAtTheEnd = errors.New("at the end")

// thrower is a local that panics when it is told of the loop's end.
type thrower struct{ told *int }

func (p thrower) LoopClosing() {
	*p.told++
	panic(errAtTheEnd)
}

// TestAPanicAtTheLoopsEnd: the others are told all the same, the loop is closed, and
// Close tells of the panic; a handler that takes it is heard.
func TestAPanicAtTheLoopsEnd(t *testing.T) {
	for _, taken := range []bool{false, true} {
		heard, told := 0, 0
		var o loop.Options
		if taken {
			o.OnPanic = func(*loop.PanicError) error {
				heard++
				return nil
			}
		}
		l, err := loop.New(o)
		if err != nil {
			t.Fatal(err)
		}
		l.SetLocal(keyA{}, thrower{&told})
		l.SetLocal(keyB{}, thrower{&told})
		err = l.Close()
		if told != 2 || taken != (err == nil) || taken != (heard == 2) || !taken && !errors.Is(err, errAtTheEnd) {
			t.Errorf("taken %v: told %d, heard %d, %v", taken, told, heard, err)
		}
		if err := l.Close(); err != loop.ErrClosed {
			t.Errorf("closed again: %v", err)
		}
	}
}

// TestNobodyIsForeignToALoopThatDoesNotRun: before it runs and once it is closed.
func TestNobodyIsForeignToALoopThatDoesNotRun(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if l.Foreign() || l.Owns() {
		t.Errorf("before: foreign %v, owns %v", l.Foreign(), l.Owns())
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if l.Foreign() || l.Owns() {
		t.Errorf("closed: foreign %v, owns %v", l.Foreign(), l.Owns())
	}
}
