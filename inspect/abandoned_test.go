package inspect

import (
	"context"
	"os"
	"testing"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/perloop"
	"github.com/spindleloop/spindle/internal/probe"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/loop"
)

// slow is state of a loop that takes as long to read as the test wants.
type slow struct {
	probe.Tasks
	began, goOn, ended chan struct{}
}

var slows perloop.Values[slow]

func (s *slow) wait() {
	s.began <- struct{}{}
	<-s.goOn
}

func (s *slow) Ready(kernel.Ready)                        {}
func (s *slow) AbortSocket()                              {}
func (s *slow) ProbeSocket(*probe.Socket)                 { s.wait() }
func (s *slow) EachListener(fn func(fd int, paused bool)) { fn(0, false) }

func (s *slow) Attach(bool)               {}
func (s *slow) LabelAll(bool)             {}
func (s *slow) WalkTasks() probe.TaskWalk { return s }
func (s *slow) End()                      { s.ended <- struct{}{} }
func (s *slow) Next(func() bool, func(*probe.Task)) bool {
	s.wait()
	return true
}

// whileReading runs a loop, and calls read, which returns while the loop is reading. The loop
// goes on when read has returned, and whileReading calls then.
func whileReading(t *testing.T, read func(*source), then func(*source, *slow)) {
	t.Helper()
	l, err := loop.New(loop.Options{Name: "abandoned", Watchdog: -1})
	if err != nil {
		t.Fatal(err)
	}
	state := &slow{began: make(chan struct{}, 1), goOn: make(chan struct{}), ended: make(chan struct{}, 1)}
	slows.Set(l, state)
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer out.Close()
	if _, err := l.Internal().Watch(int(in.Fd()), kernel.Read, kernel.Edge, state); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- l.Run(ctx) }()
	s := &source{l: l}
	for begun := false; !begun; { // the loop may not run yet
		read(s)
		select {
		case <-state.began:
			begun = true
		default:
		}
	}
	close(state.goOn)
	then(s, state)
	after := make(chan struct{})
	if err := l.Post(func() { close(after) }); err != nil {
		t.Fatal(err)
	}
	select {
	case <-after: // the loop has finished reading
	case err := <-ran:
		t.Fatalf("the loop ended with %v", err)
	}
	cancel()
	<-ran
}

// TestSnapshotOfSocketsThatTakesLongGoesOn: it is not begun again for the next request.
func TestSnapshotOfSocketsThatTakesLongGoesOn(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short: the limit of the wait is a second")
	}
	t.Parallel() // most of it is waiting
	whileReading(t, func(s *source) {
		if rows := s.readSockets(); len(rows) > 0 {
			t.Errorf("%d sockets are known while the loop is reading them", len(rows))
		}
	}, func(s *source, state *slow) {
		until.Holds(t, func() bool { return len(s.readSockets()) > 0 })
		if len(state.began) > 0 {
			t.Error("the snapshot was begun again")
		}
	})
}

// A walk that is abandoned must end: it remembers every task that enters a scope.
func TestAbandonedWalkEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short: the limit of the wait is a second")
	}
	t.Parallel() // most of it is waiting
	whileReading(t, func(s *source) {
		if _, err := s.cancel(&cancellation{task: "1.1"}); err != errNoAnswer {
			t.Errorf("cancel returned %v", err)
		}
	}, func(_ *source, state *slow) { <-state.ended })
}
