package top

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spindleloop/spindle/cmd/spindle/numbers"
	"github.com/spindleloop/spindle/internal/inspectapi"
)

// view is what the lower part of the screen shows.
type view int

const (
	viewTasks   view = iota
	viewTask         // one task, with its stack
	viewBlocked      // turns that took too long, with their stacks
)

// orders are the orders of tasks, by key.
var orders = []struct {
	key         byte
	sort, title string
}{
	{'b', "-busy", "busiest first"},
	{'a', "-age", "oldest first"},
	{'w', "-waits", "longest wait first"},
	{'t', "tree", "as a tree"},
}

// screen is the state of the terminal view. One goroutine uses it.
type screen struct {
	width, height int

	view    view
	order   int    // in orders
	filter  string // of tasks
	typing  bool   // the filter is being typed
	paused  bool
	chosen  int // row, among those that match
	top     int // the first row on the screen
	scroll  int // of the other views
	problem string
	answer  time.Time // when the program answered last
	mono    bool      // without colours

	loops   inspectapi.LoopsAnswer
	tasks   inspectapi.TasksAnswer
	blocked inspectapi.BlockedAnswer
	task    inspectapi.Task // of viewTask
	stack   inspectapi.StackAnswer
}

// The styles of lines.
const (
	plainStyle   = ""
	titleStyle   = "\x1b[1m"
	headStyle    = "\x1b[2m"
	chosenStyle  = "\x1b[7m"
	alarmStyle   = "\x1b[31m"
	alarmChosen  = "\x1b[31;7m"
	resetStyle   = "\x1b[0m"
	clearToRight = "\x1b[K"
)

// styleOf returns the style in which a line is drawn. Without colours an alarm is bold. What
// a program that does not answer has said is dim.
func (s *screen) styleOf(line styled) string {
	switch {
	case s.problem != "" && line.text != s.problem:
		return headStyle
	case s.mono:
		return strings.Replace(line.style, "31", "1", 1)
	}
	return line.style
}

// styled is a line and its style.
type styled struct{ text, style string }

// draw returns the whole screen as text for a terminal.
func (s *screen) draw() string {
	var b strings.Builder
	b.WriteString("\x1b[H")
	for i, line := range s.lines() {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(s.styleOf(line) + fit(line.text, s.width, false) + resetStyle + clearToRight)
	}
	b.WriteString("\x1b[J")
	return b.String()
}

// lines returns exactly s.height lines.
func (s *screen) lines() []styled {
	lines := s.head()
	height := max(1, s.height-len(lines)-1) // without the head and the foot
	switch s.view {
	case viewTasks:
		lines = append(lines, s.taskLines(height)...)
	case viewTask:
		lines = append(lines, s.part(s.oneTask(), height)...)
	case viewBlocked:
		lines = append(lines, s.part(s.blockedLines(), height)...)
	}
	if len(lines) > s.height-1 {
		lines = lines[:max(0, s.height-1)]
	}
	for len(lines) < s.height-1 {
		lines = append(lines, styled{})
	}
	return append(lines, s.foot())
}

// loopShare is the part of the screen that loops may take.
const loopShare = 3

// head returns the lines of the process and its loops.
func (s *screen) head() []styled {
	at := s.loops.TakenAt.Local().Format("15:04:05")
	if s.paused {
		at += " paused"
	}
	if s.problem != "" && !s.answer.IsZero() {
		at += ", " + span(int64(time.Since(s.answer))) + " ago"
	}
	title := fit(processLine(&s.loops.Header), max(0, s.width-len(at)-2), false) + "  " + at
	t := loopTable(s.width)
	lines := []styled{{title, titleStyle}, {t.head(), headStyle}}
	for i := range s.loops.Loops {
		l := &s.loops.Loops[i]
		if len(lines) > s.height/loopShare {
			lines = append(lines, styled{fmt.Sprintf("  and %d more loops", len(s.loops.Loops)-i), headStyle})
			break
		}
		style := plainStyle
		if stuck(l) {
			style = alarmStyle
		}
		lines = append(lines, styled{t.line(loopRow(l, len(t.columns))...), style})
		if stuck(l) {
			lines = append(lines, styled{whereOf(l), style})
		}
		if line, full := poolsOf(l); full {
			lines = append(lines, styled{line, alarmStyle})
		} else if line != "" {
			lines = append(lines, styled{line, plainStyle})
		}
	}
	return append(lines, styled{})
}

// taskLines returns the table of tasks, in at most height lines.
func (s *screen) taskLines(height int) []styled {
	t, tree := taskTable(s.width), orders[s.order].sort == "tree"
	title := fmt.Sprintf("%s tasks, %s", numbers.Thousands(s.tasks.Total), orders[s.order].title)
	if s.filter != "" || s.typing {
		cursor := ""
		if s.typing {
			cursor = "█"
		}
		title = fmt.Sprintf("%s of %s tasks, %s, with: %s%s", numbers.Thousands(s.tasks.Matched), numbers.Thousands(s.tasks.Total), orders[s.order].title, s.filter, cursor)
	}
	lines := []styled{{title, titleStyle}, {t.head(), headStyle}}
	s.keepInside(height - len(lines))
	if s.tasks.Total == 0 {
		lines = append(lines, styled{noTasks(&s.tasks), plainStyle})
	} else if s.tasks.Matched == 0 {
		lines = append(lines, styled{"No task matches. Press / and change the text, or Esc to remove it.", plainStyle})
	}
	for i := s.top; i < s.tasks.Matched && len(lines) < height; i++ {
		row := s.rowAt(i)
		if row == nil {
			break
		}
		style := plainStyle
		switch {
		case i == s.chosen && row.Cycle:
			style = alarmChosen
		case i == s.chosen:
			style = chosenStyle
		case row.Cycle:
			style = alarmStyle
		}
		lines = append(lines, styled{t.line(taskRow(row, len(t.columns) > 5, tree)...), style})
	}
	return lines
}

// rowAt returns a row of the page of tasks that was received, or nil.
func (s *screen) rowAt(i int) *inspectapi.Task {
	if i -= s.tasks.Offset; i >= 0 && i < len(s.tasks.Tasks) {
		return &s.tasks.Tasks[i]
	}
	return nil
}

// keepInside moves the chosen row among those that exist, and the first row so that the
// chosen one is on the screen, which has height rows for them.
func (s *screen) keepInside(height int) {
	s.chosen = max(0, min(s.chosen, s.tasks.Matched-1))
	if s.chosen < s.top {
		s.top = s.chosen
	}
	if height > 0 && s.chosen >= s.top+height {
		s.top = s.chosen - height + 1
	}
	s.top = max(0, min(s.top, s.tasks.Matched-1))
}

// part returns the lines of a text that are on the screen.
func (s *screen) part(lines []styled, height int) []styled {
	s.scroll = max(0, min(s.scroll, len(lines)-height))
	lines = lines[s.scroll:]
	return lines[:min(len(lines), height)]
}

func (s *screen) oneTask() []styled {
	t := &s.task
	lines := []styled{{t.Name, titleStyle}}
	add := func(name, text string) {
		if text != "" {
			lines = append(lines, styled{fit(name, 12, false) + text, plainStyle})
		}
	}
	add("state", t.State)
	if t.WaitsFor != "" {
		add("waits for", t.WaitsFor+", since "+span(t.WaitsNS))
	}
	add("held by", t.HeldByName)
	if t.DeadlineLeftNS != nil {
		add("deadline", "in "+span(*t.DeadlineLeftNS))
	}
	add("cancelled", t.CancelReason)
	add("function", t.Function)
	add("started at", t.Started)
	add("scope", t.Scope)
	add("nursery", t.Nursery)
	add("task", t.ID)
	if t.Time != nil {
		add("time", fmt.Sprintf("busy %s, ready %s, waiting %s, %s switches", span(t.Time.BusyNS), span(t.Time.ReadyNS), span(t.Time.WaitingNS), numbers.Thousands(t.Time.Switches)))
	}
	lines = append(lines, styled{}, styled{"stack", headStyle})
	for _, line := range stackLines(s.stack.Stack) {
		lines = append(lines, styled{line, plainStyle})
	}
	return lines
}

func (s *screen) blockedLines() (lines []styled) {
	lines = append(lines, styled{"Turns that took too long, the newest first", titleStyle})
	if len(s.blocked.Blocked) == 0 {
		lines = append(lines, styled{"None. A turn that blocks appears here with the stack taken while it lasted.", plainStyle})
	}
	for i := range s.blocked.Blocked {
		b, style := &s.blocked.Blocked[i], titleStyle
		if !b.Ended {
			style = alarmStyle
		}
		lines = append(lines, styled{blockedLine(b), style})
		for _, line := range stackLines(b.Stack) {
			lines = append(lines, styled{"    " + line, plainStyle})
		}
	}
	return slices.Clip(lines)
}

// foot returns the line of keys, or of a problem.
func (s *screen) foot() styled {
	switch {
	case s.problem != "":
		return styled{s.problem, alarmStyle}
	case s.typing:
		return styled{"Enter keeps the filter, Esc removes it", headStyle}
	case s.view == viewTask:
		return styled{"↑↓ scroll   Esc back   x blocked   p pause   q quit", headStyle}
	case s.view == viewBlocked:
		return styled{"↑↓ scroll   Esc back   p pause   q quit", headStyle}
	}
	return styled{"↑↓ choose   Enter stack   b busy  a age  w wait  t tree   / filter   x blocked   p pause   q quit", headStyle}
}
