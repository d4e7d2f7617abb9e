// Package sock is the state machine of a socket, shared by the callback model (package
// transport) and the coroutine model (package stream). It tracks what a descriptor is
// ready for, when it is watched and how it ends. It also accepts and makes connections.
//
// Everything here must be called on the goroutine of the loop.
package sock

import (
	"net"
	"slices"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/perloop"
	"github.com/spindleloop/spindle/loop"
)

// Registry tracks the sockets of one loop and holds what they share.
type Registry struct {
	L *loop.Loop
	K *kernel.Kernel

	// Buf is a read buffer that any socket may use during a callback. One is
	// enough, because callbacks run one at a time.
	Buf []byte

	debug     bool        // see Poison
	open      int         // number of open connections
	in, out   uint64      // bytes received and sent, without those of files and pipes that the system copies
	dials     *Dialing    // in progress, newest first
	listeners []*Listener // open ones, oldest first
	closing   bool
}

// bufSize is the size of Buf. A larger buffer makes large transfers no faster.
const bufSize = 64 << 10

var registries perloop.Values[Registry]

// RegistryOf returns the registry of a loop, which it makes if necessary.
func RegistryOf(l *loop.Loop) *Registry {
	return registries.Get(l, func() *Registry {
		c := l.Internal()
		return &Registry{L: l, K: c.Kernel(), Buf: make([]byte, bufSize), debug: c.Debug()}
	})
}

// Poison ends the loan of p to a callback. In debug mode it overwrites p, so that code
// that retained the slice fails visibly.
func (r *Registry) Poison(p []byte) {
	if r.debug {
		overwrite(p)
	}
}

// overwrite fills p with a byte that looks like neither text nor a length.
func overwrite(p []byte) {
	for i := range p {
		p[i] = 0xDB
	}
}

// Open returns the number of open connections.
func (r *Registry) Open() int { return r.open }

// Traffic returns the bytes that connections and datagram sockets have received and sent so
// far.
func (r *Registry) Traffic() (in, out uint64) { return r.in, r.out }

// EachListener calls fn for every open listener.
func (r *Registry) EachListener(fn func(fd int, paused bool)) {
	for _, ln := range r.listeners {
		fn(ln.fd, ln.phase == pausedAccepting)
	}
}

// Each calls fn with the owner of every open connection. fn may close that connection.
func (r *Registry) Each(fn func(Owner)) {
	r.L.Internal().EachWatcher(func(w interface{ Ready(kernel.Ready) }) {
		if o, ok := w.(Owner); ok {
			fn(o)
		}
	})
}

// LoopClosing closes everything that is still open, even if a callback panics.
func (r *Registry) LoopClosing() {
	r.closing = true
	returned := false
	defer func() {
		if !returned {
			r.LoopClosing()
		}
	}()
	r.closeListeners()
	for r.dials != nil {
		r.dials.finish(-1, kernel.Addr{}, net.ErrClosed)
	}
	for r.L.Internal().DrainAtClose(); r.open > 0; {
		r.Each(func(o Owner) {
			closeConn(o)
			r.L.Internal().DrainAtClose()
		})
	}
	r.closeListeners() // callbacks may have made new ones
	returned = true
}

func (r *Registry) closeListeners() {
	for _, ln := range slices.Clone(r.listeners) {
		ln.Close()
	}
}

func closeConn(o Owner) {
	defer o.Socket().Close()
	o.SocketOrphaned()
}
