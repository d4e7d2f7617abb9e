// Package sock is the socket's state machine, which the callback model (package
// transport) and the coroutine model (package stream) share: what a descriptor is
// known to be ready for, when it is watched, how it ends, how a listener accepts
// and how a connection is made.
//
// Everything here is for the goroutine of the loop.
package sock

import (
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
	listeners map[*Listener]bool
}

// bufSize is how much is read at once. More makes large transfers no faster.
const bufSize = 64 << 10

type hubKey struct{}

// HubOf is the hub of a loop.
func HubOf(l *loop.Loop) *Hub {
	if h, ok := l.Local(hubKey{}).(*Hub); ok {
		return h
	}
	h := &Hub{L: l, K: l.Kernel(), Buf: make([]byte, bufSize), listeners: make(map[*Listener]bool)}
	l.SetLocal(hubKey{}, h)
	return h
}

// Open is how many connections are open.
func (h *Hub) Open() int { return h.open }

// LoopClosing ends what is still open.
func (h *Hub) LoopClosing() {
	for ln := range h.listeners {
		ln.Close()
	}
	for h.last != nil {
		c := h.last
		c.owner.SocketOrphaned()
		c.Close()
	}
}
