package loop

import (
	"fmt"
	"path"
	"runtime"
	"strings"
)

// LostError is returned by Close. It lists accepted work that will never run.
type LostError struct {
	Callbacks int // scheduled or posted, not yet run
	Jobs      int // offloaded, their results not yet delivered

	// Work names the functions, callbacks first, each in the order they were
	// scheduled. Functions beyond the first 16 are counted above only.
	Work []LostWork
}

// LostWork is one function of a LostError.
type LostWork struct {
	Function string // its name, with its package
	File     string // where it is; empty for a method value, for which Go keeps no place
	Line     int
	Job      bool // it was offloaded; otherwise it is a callback
	Times    int  // how often it was lost
}

// mostNamed is the number of functions that a LostError names.
const mostNamed = 16

func (e *LostError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "loop: closed with work left: callbacks not run: %d, offloaded jobs not finished: %d", e.Callbacks, e.Jobs)
	named := 0
	for _, w := range e.Work {
		b.WriteString("\n- " + w.text())
		named += w.Times
	}
	if rest := e.Callbacks + e.Jobs - named; rest > 0 && named > 0 {
		fmt.Fprintf(&b, "\n- and %d more", rest)
	}
	return b.String()
}

// text describes the work in a line.
func (w LostWork) text() string {
	kind := "callback"
	if w.Job {
		kind = "job"
	}
	text := kind + " " + path.Base(w.Function)
	if w.File != "" {
		text += fmt.Sprintf(" (%s:%d)", path.Base(w.File), w.Line)
	}
	if w.Times > 1 {
		text += fmt.Sprintf(", %d times", w.Times)
	}
	return text
}

// add adds a function, identified by its code.
func (e *LostError) add(code uintptr, job bool) {
	w := LostWork{Function: "of an unknown function", Job: job, Times: 1}
	if f := runtime.FuncForPC(code); f != nil {
		method := false
		if w.Function, method = strings.CutSuffix(f.Name(), "-fm"); !method {
			w.File, w.Line = f.FileLine(f.Entry())
		}
	}
	for i := range e.Work {
		if at := &e.Work[i]; at.Function == w.Function && at.Job == job {
			at.Times++
			return
		}
	}
	if len(e.Work) < mostNamed {
		e.Work = append(e.Work, w)
	}
}

// lost returns the error for what Close drops and has to report; nil if that is nothing.
// The scheduler of coroutines reports those itself.
func (l *Loop) lost() *LostError {
	lost := &LostError{}
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
			lost.add(code, false)
		}
	}
	l.closeWorkers(func(code uintptr) {
		lost.Jobs++
		lost.add(code, true)
	})
	if lost.Callbacks+lost.Jobs == 0 {
		return nil
	}
	return lost
}
