package picture

import (
	"fmt"
	"slices"

	"github.com/spindleloop/spindle/internal/simkernel"
)

// Run is a run that has not failed, for comparison.
type Run struct {
	Name  string // how it differs: "without “a crashes” at 3s", "seed 4"
	Trace []simkernel.Event
}

// Difference is how two runs differ. Times and numbers of connections do not count.
type Difference struct {
	Same    int      // events at the beginning that both have
	Summary string   // in words
	Lines   []Change // the events around the first difference, and the others that differ
	More    int      // lines that are left out
}

// Change is an event of one of two runs or of both.
type Change struct {
	In    string // "both", "fails" for the run that fails, "passes" for the other, "moved" for both at another place
	Event int    // its number in the run that fails, from 1; 0 for none
	Text  string

	shape, beat string
}

const (
	compared   = 1500 // events of each run, after those that are the same
	contextFor = 2    // events in front of a difference
	maxChanges = 24
)

// Nearest returns the index of the run that has most in common with a trace, -1 for none.
func Nearest(trace []simkernel.Event, runs []Run) int {
	nearest, best := -1, 0
	for i, run := range runs {
		score := -len(run.Trace)
		for _, c := range changes(trace, run.Trace) {
			switch c.In {
			case "both":
				score += 2
			case "moved":
				score++
			}
		}
		if nearest < 0 || score > best {
			nearest, best = i, score
		}
	}
	return nearest
}

// Compare returns the difference of a run that fails from one that passes.
func Compare(fails, passes []simkernel.Event) Difference {
	var d Difference
	all := changes(fails, passes)
	for d.Same < len(all) && all[d.Same].In == "both" {
		d.Same++
	}
	d.Summary = summary(all)
	all = foldChanges(all)
	shown := map[int]bool{}
	show := func(kinds ...string) {
		for i, c := range all {
			if !slices.Contains(kinds, c.In) {
				continue
			}
			if len(shown) >= maxChanges && !shown[i] {
				d.More++
				continue
			}
			for j := max(0, i-contextFor); j <= i; j++ {
				if j == i || all[j].In == "both" {
					shown[j] = true
				}
			}
		}
	}
	show("fails", "passes") // what only one run has explains more than the order
	show("moved")
	for i, c := range all {
		if shown[i] {
			d.Lines = append(d.Lines, c)
		}
	}
	return d
}

func summary(all []Change) string {
	count := map[string]int{}
	for _, c := range all {
		count[c.In]++
	}
	switch {
	case count["fails"]+count["passes"]+count["moved"] == 0:
		return "They have the same messages. Only their times and the order of tasks differ."
	case count["fails"]+count["passes"] == 0:
		return "They have the same messages, in another order."
	}
	text := fmt.Sprintf("%d events are only in this run, and %d only in the other", count["fails"], count["passes"])
	if moved := count["moved"]; moved > 0 {
		text += fmt.Sprintf("; %d have another place in it", moved)
	}
	return text + "."
}

// foldChanges replaces repetitions, such as heartbeats that are lost, by one and a count.
func foldChanges(all []Change) (folded []Change) {
	beats := make([]string, len(all))
	for i, c := range all {
		if c.beat != "" {
			beats[i] = c.In + c.beat
		}
	}
	for i := 0; i < len(all); {
		period, times := repetition(beats[i:])
		if times < fewestBeats {
			folded = append(folded, all[i])
			i++
			continue
		}
		folded = append(folded, all[i:i+period]...)
		folded = append(folded, Change{In: all[i].In, Event: all[i].Event, Text: fmt.Sprintf("%s, %d times", again(period), times-1)})
		i += period * times
	}
	return folded
}

// message is an event that is compared, with its number.
type message struct {
	number int
	event  simkernel.Event
	shape  string
}

// messages leaves out what follows from other events: the request to connect, and the ends of connections.
func messages(trace []simkernel.Event) (all []message) {
	for i, e := range trace {
		if kind := e.KindOf(); kind != simkernel.Connecting && kind != simkernel.Ended {
			all = append(all, message{i + 1, e, shape(e)})
		}
	}
	return all
}

func (m message) change(in string) Change {
	c := Change{In: in, Event: m.number, Text: line(m.event), shape: m.shape, beat: beat(m.event)}
	if in == "passes" {
		c.Event = 0
	}
	return c
}

// changes aligns two traces: it finds a longest common subsequence of their events.
func changes(fails, passes []simkernel.Event) (all []Change) {
	a, b := messages(fails), messages(passes)
	for len(a) > 0 && len(b) > 0 && a[0].shape == b[0].shape {
		all = append(all, a[0].change("both"))
		a, b = a[1:], b[1:]
	}
	n, m := min(len(a), compared), min(len(b), compared)
	longest := make([][]uint16, n+1)
	for i := range longest {
		longest[i] = make([]uint16, m+1)
	}
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			if a[i].shape == b[j].shape {
				longest[i][j] = longest[i+1][j+1] + 1
			} else {
				longest[i][j] = max(longest[i+1][j], longest[i][j+1])
			}
		}
	}
	for i, j := 0, 0; i < n || j < m; {
		switch {
		case i < n && j < m && a[i].shape == b[j].shape:
			all = append(all, a[i].change("both"))
			i, j = i+1, j+1
		case j == m || i < n && longest[i+1][j] >= longest[i][j+1]:
			all = append(all, a[i].change("fails"))
			i++
		default:
			all = append(all, b[j].change("passes"))
			j++
		}
	}
	return joinMoved(all)
}

// joinMoved joins an event of one run with the same one of the other, at another place.
func joinMoved(all []Change) []Change {
	there := map[string][]int{}
	for i, c := range all {
		if c.In == "passes" {
			there[c.shape] = append(there[c.shape], i)
		}
	}
	gone := map[int]bool{}
	for i := range all {
		c := &all[i]
		if c.In != "fails" || len(there[c.shape]) == 0 {
			continue
		}
		j := there[c.shape][0]
		there[c.shape] = there[c.shape][1:]
		gone[j] = true
		c.In = "moved"
		if j < i {
			c.Text += "  (earlier in the other run)"
		} else {
			c.Text += "  (later in the other run)"
		}
	}
	kept := all[:0]
	for i, c := range all {
		if !gone[i] {
			kept = append(kept, c)
		}
	}
	return kept
}
