package inspect

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/loopcore"
	"github.com/spindleloop/spindle/internal/probe"
	"github.com/spindleloop/spindle/loop"
)

// slow is state of a loop that takes as long to read as the test wants.
type slow struct {
	probe.Tasks
	began, goOn, ended chan struct{}
}

var slows loopcore.PerLoop[slow]

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

// whileReading runs a loop, and calls read. Its time is up while the loop is reading, which
// goes on after read has returned.
func whileReading(t *testing.T, read func(s *source, expired <-chan time.Time), walks bool) {
	t.Helper()
	l, err := loop.New(loop.Options{Name: "abandoned", Watchdog: -1})
	if err != nil {
		t.Fatal(err)
	}
	state := &slow{began: make(chan struct{}, 1), goOn: make(chan struct{}), ended: make(chan struct{}, 1)}
	slows.Set(l.Internal(), state)
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
	expired := make(chan time.Time)
	go func() {
		<-state.began
		close(expired)
	}()
	read(&source{core: l.Internal(), l: l}, expired)
	close(state.goOn)
	if walks {
		<-state.ended
	}
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

func TestAbandonedSnapshotOfSocketsDoesNotPanic(t *testing.T) {
	whileReading(t, func(s *source, expired <-chan time.Time) {
		if _, _, _, ok := s.takeSockets(expired, nil); ok {
			t.Error("the snapshot is complete")
		}
	}, false)
}

// A walk that is abandoned must end: it remembers every task that enters a scope.
func TestAbandonedWalkEnds(t *testing.T) {
	whileReading(t, func(s *source, _ <-chan time.Time) {
		if _, err := s.cancelScope(func(*probe.Task) uintptr { return 0 }); err != errNoAnswer {
			t.Errorf("cancelScope returned %v", err)
		}
	}, true)
}
