package proc

import (
	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
)

// loopState is the package's state on one loop. Loop goroutine only.
type loopState struct {
	l             *loop.Loop
	children      map[*Process]bool
	subscriptions map[*subscription]bool
	starting      int         // calls of Start in progress, at most maxConcurrentStarts
	queue         spindle.Lot // calls of Start that wait for their turn
}

type loopStateKey struct{}

func loopStateOf(l *loop.Loop) *loopState {
	if st, ok := l.Local(loopStateKey{}).(*loopState); ok {
		return st
	}
	st := &loopState{l: l, children: map[*Process]bool{}, subscriptions: map[*subscription]bool{}}
	l.SetLocal(loopStateKey{}, st)
	return st
}

// LoopClosing ends the processes and subscriptions that remain if the loop is
// stopped before the run has ended.
func (st *loopState) LoopClosing() {
	for p := range st.children {
		p.abandon()
		p.exited.Wake(1) // lets supervise finish
	}
	for s := range st.subscriptions {
		s.close()
	}
}
