package stream

import (
	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/loop"
)

// station is what the streams of one loop share besides its hub. Loop goroutine
// only.
type station struct {
	hub       *sock.Hub
	listeners map[*Listener]struct{} // that are open
}

type stationKey struct{}

func stationOf(l *loop.Loop) *station {
	if st, ok := l.Local(stationKey{}).(*station); ok {
		return st
	}
	// The hub comes first, and so is told last that the loop ends.
	st := &station{hub: sock.HubOf(l), listeners: make(map[*Listener]struct{})}
	l.SetLocal(stationKey{}, st)
	return st
}

// LoopClosing ends the listeners: the hub knows nothing of what they have accepted
// for later, nor of their paths.
func (st *station) LoopClosing() {
	for ln := range st.listeners {
		if !ln.closed.Swap(true) {
			ln.unlink()
		}
		ln.end() // also if it was closed elsewhere, and the loop has not heard of it
	}
}
