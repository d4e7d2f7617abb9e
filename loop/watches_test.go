package loop_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"testing"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/loop"
)

// events is a Watcher that records what it receives.
type events struct{ got []kernel.Ready }

func (e *events) Ready(r kernel.Ready) { e.got = append(e.got, r) }

// TestSuspendedWatch: a watch without an interest receives nothing and keeps its row. It
// receives what is ready when it has an interest again.
func TestSuspendedWatch(t *testing.T) {
	for _, backend := range []string{"", "poll"} {
		l := newLoop(t, loop.Options{Backend: backend})
		c := l.Internal()
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
		e := &events{}
		fd := int(r.Fd())
		if _, err := c.Watch(fd, kernel.Read, kernel.Edge, e); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Watch(fd, kernel.Read, kernel.Edge, e); !errors.Is(err, fs.ErrExist) {
			t.Errorf("a second watch: %v", err)
		}
		if err := errors.Join(c.SetInterest(fd, 0), c.SetInterest(fd, 0)); err != nil {
			t.Fatal(err)
		}
		w.Write([]byte("x"))
		l.RunOnce(0)
		var found []interface{ Ready(kernel.Ready) }
		c.EachWatcher(func(w interface{ Ready(kernel.Ready) }) { found = append(found, w) })
		if len(e.got) != 0 || c.Watched() != 0 || !slices.Equal(found, []interface{ Ready(kernel.Ready) }{e}) {
			t.Errorf("suspended: received %v, %d watched, found %v", e.got, c.Watched(), found)
		}
		if err := c.SetInterest(fd, kernel.Read); err != nil {
			t.Fatal(err)
		}
		l.RunOnce(0)
		if len(e.got) == 0 || c.Watched() != 1 {
			t.Errorf("resumed: received %v, %d watched", e.got, c.Watched())
		}
		c.Unwatch(fd)
		c.Unwatch(fd)
		c.EachWatcher(func(interface{ Ready(kernel.Ready) }) { t.Error("a watch is left") })
		if err := c.SetInterest(fd, kernel.Read); fmt.Sprint(err) != "loop: descriptor is not watched" || c.Watched() != 0 {
			t.Errorf("after Unwatch: %v, %d watched", err, c.Watched())
		}
	}
}
