package perloop_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/internal/perloop"
	"github.com/spindleloop/spindle/loop"
)

func TestMain(m *testing.M) { leak.Main(m) }

func newLoop(t *testing.T, o loop.Options) *loop.Loop {
	t.Helper()
	l, err := loop.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// recorder records the call of LoopClosing.
type recorder struct {
	l      *loop.Loop
	name   string
	closed *[]string
}

func (r *recorder) LoopClosing() {
	r.l.CallSoon(func() {}) // can still be used
	*r.closed = append(*r.closed, r.name)
}

// TestCloseEndsValues calls LoopClosing once for each value, the newest first, and not
// for removed values.
func TestCloseEndsValues(t *testing.T) {
	l := newLoop(t, loop.Options{})
	var a, b, removed perloop.Values[recorder]
	if a.Of(l) != nil {
		t.Error("there is a value before one was set")
	}
	var closed []string
	a.Set(l, &recorder{l, "a", &closed})
	b.Get(l, func() *recorder { return &recorder{l, "b", &closed} })
	removed.Set(l, &recorder{l, "removed", &closed})
	if got := a.Get(l, nil); got.name != "a" {
		t.Errorf("the value of a is %q", got.name)
	}
	removed.Remove(l)
	if removed.Of(l) != nil {
		t.Error("the removed value is still there")
	}
	l.Close()
	l.Close()
	if !slices.Equal(closed, []string{"b", "a"}) {
		t.Errorf("closed: %q", closed)
	}
}

func TestSecondValuePanics(t *testing.T) {
	l := newLoop(t, loop.Options{})
	var values perloop.Values[int]
	values.Set(l, new(int))
	defer func() {
		if text, _ := recover().(string); !strings.Contains(text, "Values.Set") {
			t.Errorf("a second value: panic %q", text)
		}
	}()
	values.Set(l, new(int))
}

// TestLoopsHaveTheirOwnValues uses one PerLoop with two loops.
func TestLoopsHaveTheirOwnValues(t *testing.T) {
	a, b := newLoop(t, loop.Options{}), newLoop(t, loop.Options{})
	var values perloop.Values[int]
	values.Set(a, new(int))
	if values.Of(b) != nil {
		t.Error("a value of one loop is in the other")
	}
}

var errClosing = errors.New("closing")

// panicker panics in LoopClosing.
type panicker struct{ calls *int }

func (p *panicker) LoopClosing() {
	*p.calls++
	panic(errClosing)
}

// TestPanicInLoopClosing: the other values are ended as well, and the loop is closed.
// Close returns the panic, unless OnPanic accepts it.
func TestPanicInLoopClosing(t *testing.T) {
	for _, accepted := range []bool{false, true} {
		panics, calls := 0, 0
		var o loop.Options
		if accepted {
			o.OnPanic = func(*loop.PanicError) error {
				panics++
				return nil
			}
		}
		l := newLoop(t, o)
		var a, b perloop.Values[panicker]
		a.Set(l, &panicker{&calls})
		b.Set(l, &panicker{&calls})
		err := l.Close()
		if calls != 2 || accepted != (err == nil) || accepted != (panics == 2) || !accepted && !errors.Is(err, errClosing) {
			t.Errorf("accepted %v: %d calls, %d panics, %v", accepted, calls, panics, err)
		}
		if err := l.Close(); err != loop.ErrClosed {
			t.Errorf("closed again: %v", err)
		}
	}
}
