package proc

import (
	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/perloop"
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

var loopStates perloop.Values[loopState]

func loopStateOf(l *loop.Loop) *loopState {
	return loopStates.Get(l, func() *loopState {
		return &loopState{l: l, children: map[*Process]bool{}, subscriptions: map[*subscription]bool{}}
	})
}

// LoopClosing ends the processes and subscriptions that remain if the loop is
// stopped before the run has ended.
func (st *loopState) LoopClosing() {
	for p := range st.children { // any order: simulated loops have none
		p.abandon()
		p.exited.Wake(1) // lets supervise finish
	}
	for s := range st.subscriptions { // any order: simulated loops have none
		s.close()
	}
}
