// Package sock is the socket's state machine, which the callback model (package
// transport) and the coroutine model (package stream) share: what a descriptor is
// known to be ready for, when it is watched, how it ends, how a listener accepts
// and how a connection is made.
//
// Everything here is for the goroutine of the loop.
package sock

import (
	"net"
	"slices"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/loop"
)

// Hub is what the sockets of one loop share.
type Hub struct {
	L *loop.Loop
	K *kernel.Kernel

	// Buf is where anybody may read into for the time of a callback: one
	// callback runs at a time.
	Buf []byte

	last      *Conn // of the open ones
	open      int
	dialing   *Dialing    // the last of those under way
	listeners []*Listener // open ones, in the order in which they were made
	owed      []debt      // by Tell
	paid      int         // of these, the first ones
	pay       func()      // tell, made once
	closing   bool
}

// debt is a callback that has to be called.
type debt struct {
	fn     func()
	handle loop.Handle
}

// bufSize is how much is read at once. More makes large transfers no faster.
const bufSize = 64 << 10

type hubKey struct{}

// HubOf is the hub of a loop.
func HubOf(l *loop.Loop) *Hub {
	if h, ok := l.Local(hubKey{}).(*Hub); ok {
		return h
	}
	h := &Hub{L: l, K: l.Kernel(), Buf: make([]byte, bufSize)}
	h.pay = h.tell
	l.SetLocal(hubKey{}, h)
	return h
}

// Tell is CallSoon for what has to be told whatever happens: if the loop is closed
// before, it is told then.
func (h *Hub) Tell(fn func()) {
	h.owed = append(h.owed, debt{fn, h.L.CallSoon(h.pay)})
}

// tell calls the first of what is owed: each has its own place in the queue of
// the loop, and they come in order.
func (h *Hub) tell() {
	fn := h.owed[h.paid].fn
	h.owed[h.paid] = debt{}
	if h.paid++; 2*h.paid >= len(h.owed) { // so that it never grows for ever
		h.owed = append(h.owed[:0], h.owed[h.paid:]...)
		h.paid = 0
	}
	fn()
}

// Open is how many connections are open.
func (h *Hub) Open() int { return h.open }

// Each calls fn with the owner of every open connection. Fn may close that one.
func (h *Hub) Each(fn func(Owner)) {
	for c := h.last; c != nil; {
		before := c.prev
		fn(c.owner)
		c = before
	}
}

// LoopClosing ends what is still open. A callback that panics does not keep the
// rest from its end.
func (h *Hub) LoopClosing() {
	h.closing = true
	returned := false
	defer func() {
		if !returned {
			h.LoopClosing()
		}
	}()
	h.closeListeners()
	for h.dialing != nil {
		h.dialing.finish(-1, kernel.Addr{}, net.ErrClosed)
	}
	for h.last != nil || len(h.owed) > 0 {
		if len(h.owed) > 0 {
			h.owed[h.paid].handle.Cancel()
			h.tell()
			continue
		}
		h.orphan(h.last)
	}
	h.closeListeners() // that a callback has made
	returned = true
}

func (h *Hub) closeListeners() {
	for _, ln := range slices.Clone(h.listeners) {
		ln.Close()
	}
}

func (h *Hub) orphan(c *Conn) {
	defer c.Close()
	c.owner.SocketOrphaned()
}
