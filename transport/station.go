package transport

import (
	"slices"

	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/loop"
)

// station is what the connections of one loop share: the bytes that were written
// in this turn. All reads of a turn and then all writes are some percent faster
// than one after the other, and several small writes become one.
type station struct {
	hub     *sock.Registry
	arena   []byte
	writes  []write
	flushes func()      // flush, made once
	end     loop.Handle // of the turn
	servers []closer    // open ones, in the order in which they were made
	records []byte      // that crypto/tls has just made
	joined  []byte      // small buffers that are to be one record
	closing bool        // there are no more turns
}

// closer is a server, or a loop's part of one.
type closer interface{ loopClosing() }

// write is bytes of one connection in the arena.
type write struct {
	c        *Conn
	from, to int
}

// arenaSize is how much is gathered at most.
const arenaSize = 64 << 10

type stationKey struct{}

func stationOf(l *loop.Loop) *station {
	if st, ok := l.Local(stationKey{}).(*station); ok {
		return st
	}
	st := &station{hub: sock.RegistryOf(l), arena: make([]byte, 0, arenaSize)}
	st.flushes = st.flush
	l.SetLocal(stationKey{}, st)
	return st
}

// forget takes a server off the list of open ones.
func (st *station) forget(s closer) {
	st.servers = slices.DeleteFunc(st.servers, func(o closer) bool { return o == s })
}

// gather has p sent at the end of the turn.
func (st *station) gather(c *Conn, p []byte) {
	if len(st.arena)+len(p) > cap(st.arena) {
		st.flush()
		if c.unsent != nil || c.is(lost) {
			c.keep(p)
			return
		}
	}
	if st.closing {
		defer st.flush()
	} else if len(st.writes) == 0 {
		st.end = st.hub.L.CallSoonPriority(loop.High, st.flushes)
	}
	from := len(st.arena)
	st.arena = append(st.arena, p...)
	if last := len(st.writes) - 1; last >= 0 && st.writes[last].c == c {
		st.writes[last].to = len(st.arena)
		return
	}
	st.writes = append(st.writes, write{c, from, len(st.arena)})
	c.state |= gathered
}

// flush sends what was gathered. Sending calls no callbacks, so nothing is
// gathered meanwhile. A connection may have been gathered from in several places;
// only behind the last can it end.
func (st *station) flush() {
	st.end.Cancel() // where it was not called by that: the next write sets it anew
	for _, w := range st.writes {
		if !w.c.is(lost) {
			w.c.send(st.arena[w.from:w.to])
		}
	}
	for i, w := range st.writes {
		c := w.c
		st.writes[i].c = nil
		c.state &^= gathered
		if c.is(closing|shutting) && c.unsent == nil && !c.is(lost) {
			c.sent()
		}
	}
	st.writes, st.arena = st.writes[:0], st.arena[:0]
}

// LoopClosing sends what was written in the last turn, as nothing else will, and
// ends the servers, before the hub ends what is left.
func (st *station) LoopClosing() {
	st.closing = true
	st.flush()
	for _, s := range slices.Clone(st.servers) {
		s.loopClosing()
	}
}
