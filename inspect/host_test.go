package inspect_test

import (
	"sync"
	"testing"
	"time"

	"github.com/spindleloop/spindle/inspect"
	"github.com/spindleloop/spindle/internal/inspectapi"
	"github.com/spindleloop/spindle/internal/perloop"
	"github.com/spindleloop/spindle/internal/probe"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/loop"
)

// fakeHost is a program that steps a loop and has tasks of its own.
type fakeHost struct {
	mu    sync.Mutex
	state probe.HostState // guarded by mu
}

var _ probe.Tasks = (*fakeHost)(nil)

func (h *fakeHost) HostState() probe.HostState {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state
}

func (h *fakeHost) set(s probe.HostState) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state = s
}

func (h *fakeHost) WalkTasks() probe.TaskWalk              { return h }
func (h *fakeHost) Attach(bool)                            {}
func (h *fakeHost) Pin()                                   {}
func (h *fakeHost) LabelAll(bool)                          {}
func (h *fakeHost) Ended() []probe.EndedTask               { return nil }
func (h *fakeHost) InScope(*probe.Task, uintptr) bool      { return false }
func (h *fakeHost) End()                                   {}
func (h *fakeHost) Cancel(*probe.Task, uintptr, error) int { return 0 }

func (h *fakeHost) Next(_ func() bool, visit func(*probe.Task)) (more bool) {
	visit(&probe.Task{ID: 1, Name: "Task-1", Function: "app.py:12", Deadline: probe.NoDeadline, State: probe.Waiting, WaitsFor: "sleep"})
	return false
}

var hosts perloop.Values[fakeHost]

func TestStateOfALoopIsThatOfItsHost(t *testing.T) {
	l, err := loop.New(loop.Options{Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	h := &fakeHost{}
	l.Internal().SetHost(h)
	for _, c := range []struct {
		state probe.HostState
		want  string
	}{
		{probe.HostState{Idle: true}, "idle"},
		{probe.HostState{Waiting: true, For: time.Hour}, "waiting"},
		{probe.HostState{For: time.Millisecond}, "running"},
		{probe.HostState{For: time.Second, Task: "Task-1", At: "app.py:12", Stack: "File app.py"}, "blocked"},
	} {
		h.set(c.state)
		got := loopNamed(t, t.Name())
		if got.State != c.want || got.Task != c.state.Task || got.At != c.state.At || got.Stack != c.state.Stack {
			t.Errorf("host %+v: the loop is %+v, want %s", c.state, got, c.want)
		}
	}
}

func TestTasksOfAHost(t *testing.T) {
	l, err := loop.New(loop.Options{Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	h := &fakeHost{}
	h.set(probe.HostState{Waiting: true})
	l.Internal().SetHost(h)
	hosts.Set(l, h)
	ended := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(ended)
		defer l.Close()
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := l.RunOnce(10 * time.Millisecond); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	defer inspect.Detach()
	defer func() { close(stop); <-ended }()
	var tasks []inspectapi.Task
	until.Tried(func() bool {
		a := get[inspectapi.TasksAnswer](t, inspect.Options{}, "/api/v1/tasks?loop="+loopNamed(t, t.Name()).ID)
		tasks = a.Tasks
		return len(tasks) > 0
	})
	if len(tasks) != 1 || tasks[0].Name != "Task-1" || tasks[0].Function != "app.py:12" || tasks[0].WaitsFor != "sleep" {
		t.Errorf("tasks %+v, want Task-1 at app.py:12 that waits for sleep", tasks)
	}
}
