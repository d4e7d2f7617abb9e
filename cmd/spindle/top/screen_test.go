package top

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/inspectapi"
	"github.com/spindleloop/spindle/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// filled returns a screen with a blocked loop and a page of tasks.
func filled(width, height, tasks int) *screen {
	s := &screen{width: width, height: height}
	s.loops.Loops = []inspectapi.Loop{
		{ID: "1", Name: "main", State: "blocked", StateForNS: 12e8, At: "main.go:7 (main.pay)", Task: "  pay (main.go:3): running"},
		{ID: "2", Name: "other", State: "waiting", Phases: &inspectapi.Phases{Wait: .75}},
	}
	for i := range tasks {
		s.tasks.Tasks = append(s.tasks.Tasks, inspectapi.Task{ID: fmt.Sprint("1.", i+1), Name: fmt.Sprint("task ", i), Depth: i % 3, State: "waiting", WaitsFor: "Sleep", WaitsNS: 5e9})
	}
	s.tasks.Total, s.tasks.Matched = tasks, tasks
	return s
}

func text(s *screen) string {
	var b strings.Builder
	for _, line := range s.lines() {
		b.WriteString(line.text + "\n")
	}
	return b.String()
}

// TestScreenFillsTheTerminal checks sizes down to one line: there is never a line too many,
// and a line is never too wide.
func TestScreenFillsTheTerminal(t *testing.T) {
	for _, width := range []int{1, 20, 79, 80, 120, 300} {
		for _, height := range []int{1, 2, 5, 24, 100} {
			for _, v := range []view{viewTasks, viewTask, viewBlocked} {
				s := filled(width, height, 40)
				s.view = v
				if n := len(s.lines()); n != height {
					t.Errorf("view %d has %d lines on a terminal of %d×%d", v, n, width, height)
				}
				for _, line := range strings.Split(s.draw(), "\r\n") {
					line = strings.NewReplacer("\x1b[H", "", "\x1b[J", "", clearToRight, "", resetStyle, "", titleStyle, "", headStyle, "", chosenStyle, "", alarmStyle, "").Replace(line)
					if n := len([]rune(line)); n != width {
						t.Fatalf("view %d: a line of %d columns on a terminal of %d×%d: %q", v, n, width, height, line)
					}
				}
			}
		}
	}
}

func TestScreenShowsWhatBlocks(t *testing.T) {
	got := text(filled(100, 24, 3))
	for _, want := range []string{"blocked 1.20 s", "at main.go:7 (main.pay), pay (main.go:3): running", "25 %", "3 tasks, busiest first", "task 2"} {
		if !strings.Contains(got, want) {
			t.Errorf("the screen lacks %q:\n%s", want, got)
		}
	}
}

// TestScreenShowsPools: a full pool is first, and its line is an alarm.
func TestScreenShowsPools(t *testing.T) {
	s := filled(100, 24, 3)
	files := inspectapi.Pool{Name: "files", Workers: inspectapi.Workers{Limit: 4, Busy: 1}}
	db := inspectapi.Pool{Name: "db\x1b", Workers: inspectapi.Workers{Limit: 2, Busy: 2, Queued: 3}}
	s.loops.Loops[0].Pools = []inspectapi.Pool{files, db}
	s.loops.Loops[1].Pools = []inspectapi.Pool{files}
	got := s.draw()
	for _, want := range []string{alarmStyle + "  pools: db· 2/2+3 full, files 1/4 ", "\r\n  pools: files 1/4 "} {
		if !strings.Contains(got, want) {
			t.Errorf("the screen lacks %q:\n%q", want, got)
		}
	}
	s.height = 6
	if n := len(s.lines()); n != 6 {
		t.Errorf("%d lines on a terminal of 6", n)
	}
}

// TestScreenHasNoColoursIfToldSo: an alarm is bold then. See https://no-color.org.
func TestScreenHasNoColoursIfToldSo(t *testing.T) {
	s := filled(100, 24, 3)
	s.tasks.Tasks[0].Cycle, s.tasks.Tasks[1].Cycle = true, true
	if got := s.draw(); !strings.Contains(got, alarmStyle+"main") || !strings.Contains(got, alarmChosen+"task 0") {
		t.Fatalf("with colours: %q", got)
	}
	s.mono = true
	got := s.draw()
	if strings.Contains(got, "\x1b[3") || !strings.Contains(got, "\x1b[1mmain") || !strings.Contains(got, "\x1b[1;7mtask 0") || !strings.Contains(got, "\x1b[1mtask 1") {
		t.Errorf("without colours: %q", got)
	}
}

// TestScreenOfADeadProcessIsDim: what it has said last is not mistaken for the present.
func TestScreenOfADeadProcessIsDim(t *testing.T) {
	s := filled(100, 24, 3)
	s.answer = time.Now().Add(-75 * time.Second)
	s.problem = "no answer from 127.0.0.1:6061: connection refused"
	for i, line := range strings.Split(s.draw(), "\r\n") {
		if last := i == s.height-1; strings.Contains(line, headStyle) == last || strings.Contains(line, alarmStyle) != last {
			t.Errorf("line %d is %q", i, line)
		}
	}
	if got := text(s); !strings.Contains(got, " min ago\n") {
		t.Errorf("the screen does not say how old it is:\n%s", got)
	}
}

// TestScreenSaysWhyThereAreNoTasks: a loop that was blocked from the beginning has tasks.
func TestScreenSaysWhyThereAreNoTasks(t *testing.T) {
	s := filled(100, 24, 0)
	if got := text(s); !strings.Contains(got, "No tasks. One appears") {
		t.Errorf("of a program without tasks it says\n%s", got)
	}
	s.tasks.Loops = []inspectapi.TaskLoop{{Name: "orders", Stale: true}}
	if got := text(s); strings.Contains(got, "No tasks") || !strings.Contains(got, "The tasks of orders are not known") {
		t.Errorf("of a program with a blocked loop it says\n%s", got)
	}
}

func TestKeysMoveAndChoose(t *testing.T) {
	s := filled(100, 20, 50)
	press := func(text string) (last effect) {
		for _, k := range keysOf(text) {
			last = s.press(k)
		}
		return last
	}
	press("\x1b[B\x1bOBj")
	if s.chosen != 3 {
		t.Errorf("three times down chooses row %d", s.chosen)
	}
	press("\x1b[F")
	if got := text(s); s.chosen != 49 || !strings.Contains(got, "task 49") || strings.Contains(got, "task 1 ") {
		t.Errorf("End chooses row %d:\n%s", s.chosen, got)
	}
	press("\x1b[H\x1b[A\x1b[5~")
	if s.chosen != 0 {
		t.Errorf("Home chooses row %d", s.chosen)
	}
	if press("t") != reload || orders[s.order].sort != "tree" || !strings.Contains(text(s), "    task 2") {
		t.Errorf("t does not show a tree:\n%s", text(s))
	}
	press("/täsk q\x7f")
	if !s.typing || s.filter != "täsk " || !strings.Contains(text(s), "with: täsk █") {
		t.Errorf("the filter is %q:\n%s", s.filter, text(s))
	}
	press("\x1b")
	if s.typing || s.filter != "" {
		t.Errorf("Esc leaves the filter %q", s.filter)
	}
	if press("\r") != reload || s.view != viewTask || s.task.Name != "task 0" {
		t.Errorf("Enter shows view %d, task %q", s.view, s.task.Name)
	}
	press("\x1b[1;5C\x1bx")
	if s.view != viewBlocked {
		t.Errorf("x shows view %d", s.view)
	}
	if press("q") != quit || press("\x03") != quit {
		t.Error("q and Ctrl-C do not quit")
	}
}

func TestNamesCannotControlTheTerminal(t *testing.T) {
	s := filled(100, 20, 1)
	s.tasks.Tasks[0].Name = "evil\x1b[2J\x1b]0;title\x07"
	s.loops.Loops[0].Name, s.problem = "evil\x9b2J", "evil\x1b[2J"
	if got := s.draw(); strings.Contains(got, "\x1b[2J") || strings.Contains(got, "\x1b]") || strings.Contains(got, "\x9b") {
		t.Errorf("the terminal receives %q", got)
	}
}
