package transport

import (
	"slices"

	"github.com/spindleloop/spindle/internal/perloop"
	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/loop"
)

// loopState is what the connections of one loop share, above all the small writes of
// the current turn. Doing all reads of a turn before all writes is some percent faster
// than alternating, and several small writes become one. Loop goroutine only.
type loopState struct {
	sockets     *sock.Registry
	gatherBuf   []byte
	writes      []gatheredWrite
	flushFunc   func()      // the method value flush, allocated once
	flushHandle loop.Handle // the flush at the end of this turn
	servers     []*shard    // open ones, oldest first
	tlsRecords  []byte      // made by the current call of a TLS session
	joinBuf     []byte      // joins small buffers into one record
	closing     bool        // the loop runs no more turns
}

// gatheredWrite is a range of gatherBuf that belongs to one connection.
type gatheredWrite struct {
	c        *Conn
	from, to int
}

// gatherBufSize is the most that is gathered before a flush.
const gatherBufSize = 64 << 10

var loopStates perloop.Values[loopState]

// loopStateOf returns the state of a loop for op, which must be called on that loop.
func loopStateOf(op string, l *loop.Loop) *loopState {
	l.Internal().Only(op)
	return loopStates.Get(l, func() *loopState {
		st := &loopState{sockets: sock.RegistryOf(l), gatherBuf: make([]byte, 0, gatherBufSize)}
		st.flushFunc = st.flush
		return st
	})
}

// removeServer removes sh from the open servers.
func (st *loopState) removeServer(sh *shard) {
	st.servers = slices.DeleteFunc(st.servers, func(o *shard) bool { return o == sh })
}

// gather copies p, to be sent at the end of the turn.
func (st *loopState) gather(c *Conn, p []byte) {
	if len(st.gatherBuf)+len(p) > cap(st.gatherBuf) {
		st.flush()
		if c.unsent != nil || c.phase.lost() {
			c.enqueue(p)
			return
		}
	}
	if st.closing {
		defer st.flush()
	} else if len(st.writes) == 0 {
		st.flushHandle = st.sockets.L.CallSoonPriority(loop.High, st.flushFunc)
	}
	from := len(st.gatherBuf)
	st.gatherBuf = append(st.gatherBuf, p...)
	if last := len(st.writes) - 1; last >= 0 && st.writes[last].c == c {
		st.writes[last].to = len(st.gatherBuf)
		return
	}
	st.writes = append(st.writes, gatheredWrite{c, from, len(st.gatherBuf)})
	c.marks |= hasGathered
}

// flush sends what was gathered. Sending calls no callbacks, so nothing is gathered
// meanwhile. A connection may have several ranges in gatherBuf, so it can close only
// after all of them were sent.
func (st *loopState) flush() {
	st.flushHandle.Cancel() // if flush was called early; the next write queues it again
	for _, w := range st.writes {
		if !w.c.phase.lost() {
			w.c.send(st.gatherBuf[w.from:w.to])
		}
	}
	for i, w := range st.writes {
		c := w.c
		st.writes[i].c = nil
		c.marks &^= hasGathered
		if (c.phase == phaseShutting || c.phase == phaseClosing) && c.unsent == nil {
			c.afterSend()
		}
	}
	st.writes, st.gatherBuf = st.writes[:0], st.gatherBuf[:0]
}

// LoopClosing sends the writes of the last turn and closes the servers. The loop calls
// it before the LoopClosing of the socket registry.
func (st *loopState) LoopClosing() {
	st.closing = true
	st.flush()
	for _, s := range slices.Clone(st.servers) {
		s.loopClosing()
	}
}
