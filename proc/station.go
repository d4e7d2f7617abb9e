package proc

import (
	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
)

// station is what this package has on one loop. Loop goroutine only.
type station struct {
	l             *loop.Loop
	children      map[*Process]bool
	subscriptions map[*subscription]bool
	starting      int         // children, at most atOnce
	queue         spindle.Lot // who waits for a place
}

type stationKey struct{}

func stationOf(l *loop.Loop) *station {
	if st, ok := l.Local(stationKey{}).(*station); ok {
		return st
	}
	st := &station{l: l, children: map[*Process]bool{}, subscriptions: map[*subscription]bool{}}
	l.SetLocal(stationKey{}, st)
	return st
}

// LoopClosing ends what a loop that was stopped, and not a run that has ended,
// leaves behind.
func (st *station) LoopClosing() {
	for p := range st.children {
		p.abandon()
		p.exited.Wake(1) // supervise goes on to its end
	}
	for s := range st.subscriptions {
		s.close()
	}
}
