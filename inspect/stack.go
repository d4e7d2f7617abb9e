package inspect

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/internal/inspectapi"
)

// maxGoroutines is up to how many goroutines a dump of all stacks is taken without force: it
// stops the program for some microseconds for each goroutine. Where the runtime is known, the
// stack of one goroutine needs no dump.
const maxGoroutines = 20_000

var (
	errNoTask  = errors.New("there is no such task, or it has not begun")
	errTooMany = fmt.Errorf("there are more than %d goroutines, and taking a stack stops all of them for a while; add force=1 to take it", maxGoroutines)
)

// stackOf returns the stack of a task.
func (h *handler) stackOf(q *query) (any, error) {
	began := now()
	for _, s := range openSources() {
		snap, _ := s.readTasks()
		var g uintptr
		snap.each(func(r *row) {
			if taskID(s.id, r.ID) == q.task {
				g = r.Goroutine
			}
		})
		if g == 0 {
			continue
		}
		stack := goid.CheapStackOf(g)
		if stack == nil {
			if runtime.NumGoroutine() > maxGoroutines && !q.force {
				return nil, errTooMany
			}
			stack = goid.StackOf(goid.NumberOf(g))
		}
		return inspectapi.StackAnswer{Header: h.header(began), Task: q.task, At: goid.Line(stack), Stack: string(stack)}, nil
	}
	return nil, errNoTask
}
