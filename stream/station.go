package stream

import (
	"slices"

	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/loop"
)

// station is what the streams of one loop share besides its hub. Loop goroutine
// only.
type station struct {
	hub       *sock.Registry
	listeners []*Listener // that are open, in the order in which they were made
	buffers   [][]byte    // free ones
	pipes     []pipe      // free ones

	cannotSplice bool
}

type stationKey struct{}

func stationOf(l *loop.Loop) *station {
	if st, ok := l.Local(stationKey{}).(*station); ok {
		return st
	}
	// The hub comes first, and so is told last that the loop ends.
	st := &station{hub: sock.RegistryOf(l)}
	l.SetLocal(stationKey{}, st)
	return st
}

// LoopClosing closes the pipes, and ends the listeners: the hub knows nothing of what they have accepted
// for later, nor of their paths.
func (st *station) LoopClosing() {
	st.closePipes()
	for _, ln := range slices.Clone(st.listeners) {
		if !ln.closed.Swap(true) {
			ln.unlink()
		}
		ln.end() // also if it was closed elsewhere, and the loop has not heard of it
	}
}

// keepBuffers is how many free ones are kept.
const keepBuffers = 16

// takeBuffer and giveBuffer are for memory that is needed for the time of one
// call, or of a wait for room: what waits to be read needs none.
func (st *station) takeBuffer() []byte {
	last := len(st.buffers) - 1
	if last < 0 {
		return make([]byte, len(st.hub.Buf)) // so that what was lent fits
	}
	buf := st.buffers[last]
	st.buffers = st.buffers[:last]
	return buf
}

func (st *station) giveBuffer(buf []byte) {
	if buf != nil && len(st.buffers) < keepBuffers {
		st.buffers = append(st.buffers, buf)
	}
}
