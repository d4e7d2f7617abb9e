// Package kernel is the interface between Spindle and the operating system.
//
// The packages above it, up to the command, never call the system directly. For
// system calls, clocks, random numbers, name resolution, goroutines for blocking
// work and the ends of contexts they use a Kernel. A Kernel is either real (epoll,
// kqueue, poll) or simulated. The conformance suite in package kerneltest checks
// every kernel against the contract below.
//
// # The contract
//
// A Kernel belongs to one loop goroutine. Only Wake, Mono, Wall, At, Uint64,
// Start, LookupNetIP and AfterFunc may be called from any goroutine. All other
// methods may be called only from the goroutine that calls Wait.
//
// Errors from the system are plain syscall.Errno values on every kernel:
// EAGAIN for "not now", EBADF for a descriptor that is not open, EEXIST for one
// added twice, ENOENT for one never added, EPERM for a regular file or a
// directory, which cannot be polled. They carry no context. The caller knows the
// operation and adds it.
//
// Readiness has three modes:
//
//	Level    every Wait reports the descriptor for as long as it is ready.
//	Edge     a Wait reports it after each change to ready. A kernel without
//	         edges (poll) may repeat the event while it stays ready, so ask
//	         for Write only while there is something to write.
//	OneShot  one Wait reports it once. Then it is silent, in both directions,
//	         until Modify arms it again.
//
// Delete a descriptor before closing it. Otherwise a kernel may keep watching the
// number, and report the next descriptor that gets it under the old token.
package kernel

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"time"
)

// Kernel is everything a loop needs from the system. Its parts are interfaces, so
// that a simulation can replace the system, whole or in part.
type Kernel struct {
	Poller
	Sockets
	Clock
	Rand
	Workers
	Resolver
	Follower
}

// ErrUnknownBackend is the error that Open wraps for an unknown name.
var ErrUnknownBackend = errors.New("kernel: unknown backend")

// Interest is the set of directions in which a descriptor is watched.
type Interest uint8

const (
	Read  Interest = 1 << iota // data, a new connection, or end of file
	Write                      // free buffer space, or a finished connect
)

// Ready is the state of a watched descriptor. Its first two bits are those of
// Interest.
type Ready uint8

const (
	Readable Ready = 1 << iota // a read will not block
	Writable                   // a write will not block
	HangUp                     // the peer will send no more; read to the end
	Failed                     // an error is pending on the descriptor
	Urgent                     // TCP urgent data is pending: a short read may leave data unread
)

// Mode is how often a ready descriptor is reported; see the package comment.
type Mode uint8

const (
	Level Mode = iota
	Edge
	OneShot
)

// String returns the names of the bits that are set, such as "readable|hang-up".
func (r Ready) String() string {
	return bitNames(uint8(r), "readable", "writable", "hang-up", "failed", "urgent")
}

// String returns the names of the bits that are set, such as "read|write".
func (in Interest) String() string { return bitNames(uint8(in), "read", "write") }

func bitNames(bits uint8, names ...string) string {
	var set []string
	for i, name := range names {
		if bits&(1<<i) != 0 {
			set = append(set, name)
		}
	}
	if set == nil {
		return "none"
	}
	return strings.Join(set, "|")
}

// String returns the mode's name.
func (m Mode) String() string {
	switch m {
	case Level:
		return "level"
	case Edge:
		return "edge"
	case OneShot:
		return "one-shot"
	}
	return "unknown mode"
}

// Token identifies one registration of a descriptor. The caller chooses it: a slab
// index and a generation, which distinguishes a reused descriptor number from its
// predecessor. The kernel returns it and never interprets it. The token with every
// bit set is reserved for the kernel.
//
// The lower half is the index, the row, and the upper half the generation. The C code of the
// Python package relies on that: spindle_token_row in python/libspindle/events.h.
type Token uint64

// NewToken returns the token of a row.
func NewToken(row, generation uint32) Token { return Token(generation)<<32 | Token(row) }

// Row returns the index in the caller's slab.
func (t Token) Row() uint32 { return uint32(t) }

// Generation returns how often the row was used before.
func (t Token) Generation() uint32 { return uint32(t >> 32) }

// Event is one event that Wait reports.
type Event struct {
	Token Token
	Ready Ready
}

// Poller reports readiness.
type Poller interface {
	// Name returns the backend's name: "epoll", "kqueue", "poll", …
	Name() string

	// Add starts watching fd. Interest is never empty. Add fails with EPERM if
	// fd cannot be polled, and with EEXIST if it is already added.
	Add(fd int, tok Token, in Interest, mode Mode) error

	// Modify replaces the token, interest and mode of an added fd, and arms a
	// one-shot again. If fd is ready now, an edge is reported again.
	Modify(fd int, tok Token, in Interest, mode Mode) error

	// Delete stops watching fd: no later Wait reports it.
	Delete(fd int) error

	// Wait fills events with what is ready and returns the number of events.
	// It waits until something is ready, until the timeout expires, or until
	// Wake. A negative timeout waits without limit; a zero timeout does not
	// wait. Wait returns without events well before the timeout only after a
	// Wake or an interrupting signal; the caller reads the clock again. Errors
	// and hang-ups are reported with every direction in the interest, so that a
	// callback for either direction sees them. A hang-up of the peer's sending
	// side alone is reported only if the interest includes Read.
	Wait(events []Event, timeout time.Duration) (int, error)

	// Wake makes the current Wait return, or the next one if none is running.
	// Several Wakes before that Wait count as one. Wake may be called from any
	// goroutine, also after Close.
	Wake()

	// Close releases the poller. Descriptors that were added stay open.
	Close() error
}

// Notifier is a Poller that reports events while nothing waits in it.
type Notifier interface {
	// Notify calls ready, on another goroutine, after an event has come that a Wait
	// would report, if the last Wait before reported none. It may call it without an
	// event. When stop has returned, ready is not called again.
	Notify(ready func()) (stop func(), err error)
}

// Clock reads the time.
type Clock interface {
	// Mono returns the time since some fixed moment. It never decreases.
	Mono() time.Duration
	// Wall returns the time of day.
	Wall() time.Time
	// At returns the time at which Mono returns, or returned, mono. It returns the
	// same time for the same mono, even when the time of day is set.
	At(mono time.Duration) time.Time
}

// Rand is a source of random numbers; it is a math/rand/v2.Source.
type Rand interface {
	Uint64() uint64
}

// Workers runs blocking work outside the loop.
type Workers interface {
	// Start runs work concurrently with the loop and returns at once.
	Start(work func())
}

// Resolver resolves names to addresses. It blocks: call it on a worker.
type Resolver interface {
	// LookupNetIP looks up host; network is "ip", "ip4" or "ip6".
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Follower reports the ends of contexts.
type Follower interface {
	// AfterFunc is like context.AfterFunc: it calls f once ctx has ended, unless
	// stop is called before that. A real kernel calls f on a new goroutine. A
	// simulated kernel calls f inside Wait, because the moment at which a
	// goroutine runs does not follow from the seed.
	AfterFunc(ctx context.Context, f func()) (stop func() bool)
}
