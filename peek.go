package spindle

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
	"unsafe"
)

// peek describes the running task from another goroutine, for reports of a loop that is
// blocked. The loop does not cooperate, so the reads are not synchronized with it: if the
// loop goes on meanwhile, they may see a task that is ending, or halves of two. A fault is
// recovered, and the report then has no task. Synchronizing every switch for the sake of
// such a report would cost more than a wrong name in one of them.
//
//go:norace
func (s *sched) peek() (line string) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			line = ""
		}
	}()
	c := s.core.PeekRunning()
	if c == nil {
		return ""
	}
	b, ok := c.PeekBody().(*body)
	if !ok || b == nil {
		return ""
	}
	var names []string
	t := (*Task)(b)
	id := t.id
	for at := t; at != nil && len(names) < 16; at = at.peekParent() {
		names = append(names, at.peekName())
	}
	for i, j := 0, len(names)-1; i < j; i, j = i+1, j-1 {
		names[i], names[j] = names[j], names[i]
	}
	if s.core.PeekRunning() != c || t.id != id {
		return "" // the loop has gone on
	}
	return fmt.Sprintf("%s (%s, in %s)", strings.Join(names, " > "), t.peekPlace(), t.scope.peek())
}

//go:norace
func (t *Task) peekParent() *Task {
	if n := t.nursery; n != nil {
		return n.owner
	}
	return nil
}

// peekName is Name for another goroutine. The TaskName method of the task's values is for
// the loop. PeekTaskName is its counterpart for any goroutine, in values of this module.
//
//go:norace
func (t *Task) peekName() string {
	if name := t.name; name != "" {
		copied := make([]byte, len(name)) // byte by byte, so that a fault is here
		for i := range copied {
			copied[i] = name[i]
		}
		return string(copied)
	}
	if own := t.own; own != nil {
		if named, ok := own.values.(interface{ PeekTaskName() string }); ok {
			return named.PeekTaskName()
		}
	}
	if f := runtime.FuncForPC(t.peekCode()); f != nil {
		return functionName(f)
	}
	return "task"
}

// peekCode is codeOf. A function value points to the address of its code.
//
//go:norace
func (t *Task) peekCode() uintptr {
	if t.code != 0 {
		return t.code
	}
	fn := t.fn
	if fn == nil {
		return 0
	}
	return **(**uintptr)(unsafe.Pointer(&fn))
}

//go:norace
func (t *Task) peekPlace() string {
	f := runtime.FuncForPC(t.peekCode())
	if f == nil {
		return "unknown function"
	}
	file, line := f.FileLine(f.Entry())
	return fmt.Sprintf("%s:%d", file[strings.LastIndexByte(file, '/')+1:], line)
}

// peek describes the scope.
//
//go:norace
func (sc *Scope) peek() string {
	depth := 0
	for at := sc.parent; at != nil; at = at.parent {
		depth++
	}
	text := fmt.Sprintf("a scope %d deep", depth)
	if depth == 0 {
		text = "the outermost scope"
	}
	if when := sc.earliest(); when != noDeadline {
		left := when - sc.s.l.Time()
		if left < 0 {
			return text + fmt.Sprintf(" with its deadline passed %v ago", -left.Round(time.Millisecond))
		}
		return text + fmt.Sprintf(" with %v left", left.Round(time.Millisecond))
	}
	return text
}
