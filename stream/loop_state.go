package stream

import (
	"slices"

	"github.com/spindleloop/spindle/internal/perloop"
	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/loop"
)

// loopState is the state that the streams of one loop share, besides the loop's
// sock.Registry. Loop goroutine only.
type loopState struct {
	registry  *sock.Registry
	listeners []*Listener   // open ones, oldest first
	buffers   [][]byte      // free
	pipes     []pipe        // free and empty
	unsent    map[*Conn]int // the bytes of tasks that wait to write

	cannotSplice bool
	rootsLoaded  bool // see loadRoots
}

var loopStates perloop.Values[loopState]

func loopStateOf(l *loop.Loop) *loopState {
	return loopStates.Get(l, func() *loopState {
		// Creating the registry first makes the loop close it last.
		return &loopState{registry: sock.RegistryOf(l)}
	})
}

// LoopClosing closes the pipes and the listeners. The registry knows neither the
// connections that listeners have pending nor the paths of Unix sockets.
func (st *loopState) LoopClosing() {
	st.closePipes()
	for _, ln := range slices.Clone(st.listeners) {
		if !ln.closed.Swap(true) {
			ln.unlink()
		}
		ln.closeOnLoop() // needed even if Close was called: the loop may not have run it yet
	}
}

// maxFreeBuffers is the number of free buffers kept for reuse.
const maxFreeBuffers = 16

// getBuffer returns a buffer for the duration of one call, or of a wait for
// writability. A task that waits for data to read holds none.
func (st *loopState) getBuffer() []byte {
	last := len(st.buffers) - 1
	if last < 0 {
		return make([]byte, len(st.registry.Buf)) // the shared buffer's size, so that borrowed bytes fit
	}
	buf := st.buffers[last]
	st.buffers = st.buffers[:last]
	return buf
}

func (st *loopState) putBuffer(buf []byte) {
	if buf != nil && len(st.buffers) < maxFreeBuffers {
		st.buffers = append(st.buffers, buf)
	}
}
