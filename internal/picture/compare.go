package picture

import (
	"github.com/spindleloop/spindle/internal/simkernel"
)

// Run is a run that has not failed, for comparison.
type Run struct {
	Name  string // how it differs: "without fault 3", "seed 4"
	Trace []simkernel.Event
}

// Difference is how two runs differ. Times and numbers of connections do not count.
type Difference struct {
	Same  int      // events at the beginning that both have
	Lines []Change // the events around the first difference, and the others that differ
	More  int      // lines that are left out
}

// Change is an event of one of two runs or of both.
type Change struct {
	In    string // "both", "fails" for the run that fails, "passes" for the other
	Event int    // its number in the run that fails, from 1; 0 for none
	Text  string
}

const (
	compared   = 1500 // events of each run, after those that are the same
	contextFor = 2    // events in front of a difference
	maxChanges = 24
)

// Nearest returns the index of the run that has most in common with a trace, -1 for none.
func Nearest(trace []simkernel.Event, runs []Run) int {
	nearest, best := -1, -1
	for i, run := range runs {
		common := 0
		for _, c := range changes(trace, run.Trace) {
			if c.In == "both" {
				common++
			}
		}
		if score := 2*common - len(run.Trace); nearest < 0 || score > best {
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
	near := func(i int) bool {
		for j := i; j < min(i+contextFor+1, len(all)); j++ {
			if all[j].In != "both" {
				return true
			}
		}
		return false
	}
	for i := max(0, d.Same-contextFor); i < len(all); i++ {
		switch {
		case !near(i):
		case len(d.Lines) == maxChanges:
			d.More++
		default:
			d.Lines = append(d.Lines, all[i])
		}
	}
	return d
}

// changes aligns two traces: it finds a longest common subsequence of their events.
func changes(a, b []simkernel.Event) (all []Change) {
	one, two := shapes(a), shapes(b)
	same := 0
	for same < min(len(one), len(two)) && one[same] == two[same] {
		all = append(all, Change{"both", same + 1, line(a[same])})
		same++
	}
	n, m := min(len(a)-same, compared), min(len(b)-same, compared)
	longest := make([][]uint16, n+1)
	for i := range longest {
		longest[i] = make([]uint16, m+1)
	}
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			if one[same+i] == two[same+j] {
				longest[i][j] = longest[i+1][j+1] + 1
			} else {
				longest[i][j] = max(longest[i+1][j], longest[i][j+1])
			}
		}
	}
	for i, j := 0, 0; i < n || j < m; {
		switch {
		case i < n && j < m && one[same+i] == two[same+j]:
			all = append(all, Change{"both", same + i + 1, line(a[same+i])})
			i, j = i+1, j+1
		case j == m || i < n && longest[i+1][j] >= longest[i][j+1]:
			all = append(all, Change{"fails", same + i + 1, line(a[same+i])})
			i++
		default:
			all = append(all, Change{"passes", 0, line(b[same+j])})
			j++
		}
	}
	return all
}

func shapes(trace []simkernel.Event) []string {
	all := make([]string, len(trace))
	for i, e := range trace {
		all[i] = shape(e)
	}
	return all
}
