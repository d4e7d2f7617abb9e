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

	debug     bool  // see Returned
	last      *Conn // of the open ones
	open      int
	dialing   *Dialing    // the last of those under way
	listeners []*Listener // open ones, in the order in which they were made
	closing   bool
}

// bufSize is how much is read at once. More makes large transfers no faster.
const bufSize = 64 << 10

type hubKey struct{}

// HubOf is the hub of a loop.
func HubOf(l *loop.Loop) *Hub {
	if h, ok := l.Local(hubKey{}).(*Hub); ok {
		return h
	}
	h := &Hub{L: l, K: l.Kernel(), Buf: make([]byte, bufSize), debug: l.Debug()}
	l.SetLocal(hubKey{}, h)
	return h
}

// Returned says that p is no longer lent. In debug mode it is overwritten, so that
// whoever has kept it finds out.
func (h *Hub) Returned(p []byte) {
	if h.debug {
		poison(p)
	}
}

// poison is what no text and no length looks like.
func poison(p []byte) {
	for i := range p {
		p[i] = 0xDB
	}
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
	for h.L.RunOwed(); h.last != nil; h.L.RunOwed() {
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
