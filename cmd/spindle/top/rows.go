package top

import (
	"fmt"
	"strings"

	"github.com/spindleloop/spindle/cmd/spindle/numbers"
	"github.com/spindleloop/spindle/internal/inspectapi"
)

// The tables are the same on the screen and in logs.

func loopTable(width int) table {
	columns := []column{{"loop", 0, false}, {"state", 15, false}, {"lag", 7, true}, {"turns/s", 8, true}, {"busy", 5, true},
		{"tasks", 7, true}, {"ready", 5, true}, {"workers", 7, true}, {"timers", 6, true}, {"fds", 5, true}}
	if width < wideScreen {
		columns = columns[:8]
	}
	return table{columns, width}
}

// wideScreen is the width from which tables have all columns.
const wideScreen = 96

func loopRow(l *inspectapi.Loop, columns int) []string {
	busy := "–"
	if l.Phases != nil {
		busy = fmt.Sprintf("%.0f %%", 100*(1-l.Phases.Wait))
	}
	n := l.Tasks.Fresh + l.Tasks.Ready + l.Tasks.Running + l.Tasks.Waiting
	return []string{l.Name, stateOf(l), span(l.LagNS), numbers.Thousands(int64(l.TurnRate)), busy, numbers.Thousands(n),
		numbers.Thousands(l.Ready.High + l.Ready.Normal + l.Ready.Low + l.Inbox), workersOf(&l.Workers), numbers.Thousands(l.Timers), numbers.Thousands(l.FDs)}[:columns]
}

// workersOf returns how many workers of a pool are busy, of how many, and the jobs that wait.
func workersOf(w *inspectapi.Workers) string {
	if w.Queued > 0 {
		return fmt.Sprintf("%d/%d+%d", w.Busy, w.Limit, w.Queued)
	}
	return fmt.Sprintf("%d/%d", w.Busy, w.Limit)
}

// poolsOf says in a line how busy the pools of a loop are, the full ones first. It returns ""
// if the loop has used none but its own.
func poolsOf(l *inspectapi.Loop) (line string, full bool) {
	var first, others []string
	for i := range l.Pools {
		p := &l.Pools[i]
		text := clean(p.Name) + " " + workersOf(&p.Workers)
		if p.Queued > 0 {
			first = append(first, text+" full")
		} else {
			others = append(others, text)
		}
	}
	if len(l.Pools) == 0 {
		return "", false
	}
	return "  pools: " + strings.Join(append(first, others...), ", "), len(first) > 0
}

func stuck(l *inspectapi.Loop) bool { return l.State == "blocked" || l.State == "starved" }

func stateOf(l *inspectapi.Loop) string {
	if stuck(l) {
		return l.State + " " + span(l.StateForNS)
	}
	return l.State
}

// whereOf says in a line what blocks a loop.
func whereOf(l *inspectapi.Loop) string {
	line := "  at " + where(l.At, l.Stack)
	if task := strings.TrimSpace(l.Task); task != "" {
		line += ", " + task
	}
	return line
}

// where returns the line at which a stack stands: the program's own if it is known,
// otherwise the innermost.
func where(at, stack string) string {
	lines := stackLines(stack)
	switch {
	case at != "":
		return at
	case len(lines) > 0:
		return strings.Join(strings.Fields(lines[0]), " ")
	}
	return "a line that is not known yet"
}

func taskTable(width int) table {
	columns := []column{{"task", 0, false}, {"state", 8, false}, {"waits for", max(16, width/4), false}, {"since", 9, true}, {"busy", 9, true}, {"age", 9, true}}
	if width < wideScreen {
		columns = append(columns[:3:3], columns[4], columns[5])
		columns[2].width = max(12, width/5)
	}
	return table{columns, width}
}

func taskRow(t *inspectapi.Task, wide, tree bool) []string {
	name := t.Name
	if tree {
		name = strings.Repeat("  ", min(t.Depth, 20)) + name
	}
	waits, since, busy, age := t.WaitsFor, "–", "–", "–"
	if t.HeldByName != "" {
		waits += ", held by " + t.HeldByName
	}
	if t.Cycle {
		waits += " (a cycle)"
	}
	if t.CancelReason != "" {
		waits += " (cancelled)"
	}
	if t.WaitsFor != "" {
		since = span(t.WaitsNS)
	}
	if t.Time != nil {
		busy, age = span(t.Time.BusyNS), span(t.Time.AgeNS)
	}
	if !wide {
		return []string{name, t.State, waits, busy, age}
	}
	return []string{name, t.State, waits, since, busy, age}
}

// noTasks says why there are no tasks. A loop that is blocked cannot describe them.
func noTasks(a *inspectapi.TasksAnswer) string {
	for _, l := range a.Loops {
		if l.Stale {
			return fmt.Sprintf("The tasks of %s are not known: it has not answered since it was first looked at.", clean(l.Name))
		}
	}
	return "No tasks. One appears when the program calls spindle.Run or Nursery.Go."
}

// stackLines shortens a stack to a line for each function.
func stackLines(stack string) (lines []string) {
	rows := strings.Split(strings.TrimSpace(stack), "\n")
	for i := 0; i < len(rows); i++ {
		name := strings.TrimSpace(rows[i])
		if name == "" || strings.HasPrefix(name, "goroutine ") {
			continue
		}
		if open := strings.LastIndex(name, "("); open > 0 && strings.HasSuffix(name, ")") {
			name = name[:open]
		}
		name = name[strings.LastIndex(name, "/")+1:]
		at := ""
		if i+1 < len(rows) && strings.HasPrefix(rows[i+1], "\t") {
			i++
			at, _, _ = strings.Cut(strings.TrimSpace(rows[i]), " +0x")
			at = at[strings.LastIndex(at, "/")+1:]
		}
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%-40s %s", name, at)))
	}
	return lines
}

func processLine(h *inspectapi.Header) string {
	p := &h.Process
	return fmt.Sprintf("%s, process %d, %s, %s goroutines, heap %s", p.Program, p.PID, p.GoVersion, numbers.Thousands(p.Goroutines), size(p.HeapBytes))
}

func blockedLine(b *inspectapi.Blocked) string {
	what := "blocked"
	if b.Starved {
		what = "starved"
	}
	if !b.Ended {
		what = "still " + what
	}
	line := fmt.Sprintf("%s  %s %s for %s at %s", b.At.Local().Format("15:04:05"), b.Name, what, span(b.ForNS), where(b.Line, b.Stack))
	if b.Task != "" {
		line += ", " + strings.TrimSpace(b.Task)
	}
	return line
}
