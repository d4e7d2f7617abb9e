package loop_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/loop"
)

type keyA struct{}
type keyB struct{}

// closing is a local that wants to know of the loop's end.
type closing struct {
	l    *loop.Loop
	name string
	told *[]string
}

func (c *closing) LoopClosing() {
	c.l.CallSoon(func() {}) // can still be used
	*c.told = append(*c.told, c.name)
}

// TestLocalsAreToldOfTheEnd: once, the last to come first, before the loop is
// closed.
func TestLocalsAreToldOfTheEnd(t *testing.T) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if l.Local(keyA{}) != nil {
		t.Error("there is a value before one was set")
	}
	var told []string
	l.SetLocal(keyA{}, &closing{l, "a", &told})
	l.SetLocal(keyB{}, &closing{l, "b", &told})
	if got := l.Local(keyA{}).(*closing).name; got != "a" {
		t.Errorf("under a's key is %q", got)
	}
	func() {
		defer func() {
			if text, _ := recover().(string); !strings.Contains(text, "SetLocal") {
				t.Errorf("a second value: panic %q", text)
			}
		}()
		l.SetLocal(keyA{}, 1)
	}()
	l.Close()
	l.Close()
	if !slices.Equal(told, []string{"b", "a"}) {
		t.Errorf("told: %q", told)
	}
}
