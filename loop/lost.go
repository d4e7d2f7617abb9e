package loop

import (
	"fmt"
	"path"
	"runtime"
	"strings"
)

// lostError is an ErrLost.
type lostError struct {
	Callbacks int // scheduled or posted, not yet run
	Jobs      int // offloaded, their results not yet delivered

	// Work names the functions in lines of text, with file, line, and how often each was lost:
	// callbacks first, each in the order they were scheduled. Functions beyond the first 16 are
	// counted above only.
	Work []string

	named int // how many Work names
}

// lostWork is one function of a lostError.
type lostWork struct {
	function string // its name, with its package
	file     string // where it is; empty for a method value, for which Go keeps no place
	line     int
	job      bool // it was offloaded; otherwise it is a callback
	times    int  // how often it was lost
}

// mostNamed is the number of functions that a lostError names.
const mostNamed = 16

func (e *lostError) Is(target error) bool { return target == ErrLost }

func (e *lostError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "loop: closed with work left: callbacks not run: %d, offloaded jobs not finished: %d", e.Callbacks, e.Jobs)
	for _, w := range e.Work {
		b.WriteString("\n- " + w)
	}
	if rest := e.Callbacks + e.Jobs - e.named; rest > 0 && e.named > 0 {
		fmt.Fprintf(&b, "\n- and %d more", rest)
	}
	return b.String()
}

// text describes the work in a line.
func (w lostWork) text() string {
	kind := "callback"
	if w.job {
		kind = "job"
	}
	text := kind + " " + path.Base(w.function)
	if w.file != "" {
		text += fmt.Sprintf(" (%s:%d)", path.Base(w.file), w.line)
	}
	if w.times > 1 {
		text += fmt.Sprintf(", %d times", w.times)
	}
	return text
}

// lostList is what is lost, by function.
type lostList []lostWork

// add adds a function, identified by its code.
func (all *lostList) add(code uintptr, job bool) {
	w := lostWork{function: "of an unknown function", job: job, times: 1}
	if f := runtime.FuncForPC(code); f != nil {
		method := false
		if w.function, method = strings.CutSuffix(f.Name(), "-fm"); !method {
			w.file, w.line = f.FileLine(f.Entry())
		}
	}
	for i := range *all {
		if at := &(*all)[i]; at.function == w.function && at.job == job {
			at.times++
			return
		}
	}
	if len(*all) < mostNamed {
		*all = append(*all, w)
	}
}

// lost returns the error for what Close drops and has to report; nil if that is nothing.
// The scheduler of coroutines reports those itself.
func (l *Loop) lost() *lostError {
	lost, work := &lostError{}, lostList{}
	for i := range l.lanes {
		q := &l.lanes[i]
		for seq := q.head; seq != q.tail; seq++ {
			code := uintptr(0)
			if e := q.at(seq); e.fn != nil {
				code = codeOf(e.fn)
			} else if call, ok := e.co.(groupCall); ok {
				code = codeOf(call.fn)
			} else {
				continue
			}
			lost.Callbacks++
			work.add(code, false)
		}
	}
	l.closeWorkers(func(code uintptr) {
		lost.Jobs++
		work.add(code, true)
	})
	if lost.Callbacks+lost.Jobs == 0 {
		return nil
	}
	for _, w := range work {
		lost.Work = append(lost.Work, w.text())
		lost.named += w.times
	}
	return lost
}
