package inspect

import (
	"context"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/perloop"
	"github.com/spindleloop/spindle/internal/probe"
	"github.com/spindleloop/spindle/loop"
)

// longWalk is the tasks of a loop. Its first walk takes as long as the test wants. Loop
// goroutine only.
type longWalk struct {
	probe.Tasks
	began, goOn chan struct{}
	walks, left int
}

var longWalks perloop.Values[longWalk]

func (l *longWalk) Attach(bool)              {}
func (l *longWalk) LabelAll(bool)            {}
func (l *longWalk) End()                     {}
func (l *longWalk) Ended() []probe.EndedTask { return nil }

func (l *longWalk) WalkTasks() probe.TaskWalk {
	l.walks++
	l.left = 3
	return l
}

func (l *longWalk) Next(_ func() bool, visit func(*probe.Task)) bool {
	if l.left == 3 && l.walks == 1 {
		close(l.began)
		<-l.goOn
	}
	visit(&probe.Task{ID: uint64(l.left)})
	l.left--
	return l.left > 0
}

// TestWalkThatTakesLongGoesOn: a request does not wait for a walk that takes long. The walk is
// not begun again for the next request, which would never end for a busy loop.
func TestWalkThatTakesLongGoesOn(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short: the limit of the wait is a second")
	}
	t.Parallel() // most of it is waiting
	l, err := loop.New(loop.Options{Name: t.Name(), Watchdog: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	tasks := &longWalk{began: make(chan struct{}), goOn: make(chan struct{})}
	longWalks.Set(l, tasks)
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- l.Run(ctx) }()
	s := &source{l: l}
	s.tasks.last = &taskSnapshot{at: -time.Hour} // otherwise it waits longer
	for begun := false; !begun; {                // the loop may not run yet
		if snap, stale := s.readTasks(); !stale || snap.n != 0 {
			t.Errorf("while the walk goes on, a snapshot has %d tasks", snap.n)
		}
		select {
		case <-tasks.began:
			begun = true
		default:
		}
	}
	if _, stale := s.readTasks(); !stale {
		t.Error("a second request has got a snapshot")
	}
	close(tasks.goOn)
	for stale := true; stale; {
		var snap *taskSnapshot
		if snap, stale = s.readTasks(); !stale && snap.n != 3 {
			t.Errorf("the snapshot has %d tasks, want 3", snap.n)
		}
	}
	cancel()
	<-ran
	if tasks.walks != 1 {
		t.Errorf("%d walks were begun", tasks.walks)
	}
}
