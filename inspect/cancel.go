package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/spindleloop/spindle/internal/probe"
)

// errCancelled is the cause of a cancellation by an inspector.
var errCancelled = errors.New("inspect: cancelled by an inspector")

// cancellation is a request to cancel a scope or a task.
type cancellation struct {
	scope, task string // one of them is set
	address     uintptr
	cause       error // nil if the request only asks what would be cancelled
}

// cancel cancels the scope or the task with an id.
func (h *handler) cancel(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	c := &cancellation{scope: q.Get("scope"), task: q.Get("task"), cause: errCancelled}
	loop, address, ok := parseObjectID(c.scope, 's')
	if c.address = address; c.scope == "" {
		loop, _, ok = strings.Cut(c.task, ".")
	}
	dry, err := strconv.ParseBool(cmp.Or(q.Get("dry"), "0"))
	switch {
	case !ok || (c.scope == "") == (c.task == ""):
		fail(w, http.StatusBadRequest, "cancel needs scope=ID or task=ID")
		return
	case err != nil: // not a cancellation: dry=yes means that nothing is to end
		fail(w, http.StatusBadRequest, fmt.Sprintf("dry=%s: want 1 or 0", q.Get("dry")))
		return
	case dry:
		c.cause = nil
	}
	tasks := 0
	if s := sourceByID(loop); s != nil {
		tasks, err = offLoop(r, func() (int, error) { return s.cancel(c) })
	}
	h.acted(w, c.describe(tasks), tasks, err)
}

// describe says what is done to tasks. It returns "" if there are none.
func (c *cancellation) describe(tasks int) string {
	done := "cancelled"
	if c.cause == nil {
		done = "would cancel"
	}
	switch {
	case tasks == 0:
		return ""
	case c.scope != "":
		return fmt.Sprintf("%s scope %s with %s", done, c.scope, countTasks(tasks))
	case tasks == 1:
		return fmt.Sprintf("%s task %s", done, c.task)
	}
	return fmt.Sprintf("%s task %s and %s below it", done, c.task, countTasks(tasks-1))
}

func countTasks(n int) string {
	if n == 1 {
		return "1 task"
	}
	return fmt.Sprintf("%d tasks", n)
}

// cancel looks for a task of the cancellation, and cancels. It returns the number of tasks
// that are cancelled.
func (s *source) cancel(c *cancellation) (int, error) {
	expired, stop := after(snapshotWait)
	defer stop()
	own, begun := s.tasks.begin(true)
	for ; !begun; own, begun = s.tasks.begin(true) {
		if !s.waits(own, expired) {
			return 0, errNoAnswer
		}
	}
	defer s.tasks.end(own, nil)
	snap := &taskSnapshot{}
	var walk probe.TaskWalk
	more, tasks := true, 0
	for more {
		if !s.callOnLoop(expired, func() {
			began := s.l.Time()
			if walk == nil {
				if walk = snap.begin(s); walk == nil {
					more = false
					return
				}
			}
			var chosen *probe.Task
			more = walk.Next(func() bool { return chosen != nil || s.l.Time()-began > sliceTime }, func(t *probe.Task) {
				if chosen == nil && c.concerns(s, snap.tasks, t) {
					copied := *t
					chosen = &copied
				}
			})
			if chosen != nil {
				walk.End()
				more, tasks = false, snap.tasks.Cancel(chosen, c.address, c.cause)
			}
		}) {
			s.abandon(&walk)
			return 0, errNoAnswer
		}
	}
	return tasks, nil
}

// concerns reports whether t is the task to cancel, or is in the scope to cancel.
func (c *cancellation) concerns(s *source, tasks probe.Tasks, t *probe.Task) bool {
	if c.task != "" {
		return taskID(s.id, t.ID) == c.task
	}
	return tasks.InScope(t, c.address)
}
