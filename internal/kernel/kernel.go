// Package kernel is the seam between Spindle and the operating system.
//
// Nothing between this package and the command calls the system, reads a clock,
// draws a random number, resolves a name, starts a goroutine for blocking work or
// follows a context by itself: it asks a Kernel. Real backends (epoll, kqueue, poll) stand behind the seam,
// and so can a simulated one; the conformance suite in kerneltest holds them
// all to the words below.
//
// # The contract
//
// A Kernel belongs to one loop goroutine. Only Wake, Mono, Wall, At, Uint64,
// Start, LookupNetIP and AfterFunc may be called from any goroutine; everything else is
// for the goroutine that calls Wait.
//
// Errors that come from the system are plain syscall.Errno values, on every
// kernel: EAGAIN for "not now", EBADF for a descriptor that is not open, EEXIST
// for one added twice, ENOENT for one never added, EPERM for a regular file or a
// directory, which cannot be polled. They carry no context; the caller, who knows the
// operation, adds it.
//
// Readiness, in three modes:
//
//	Level    every Wait reports the descriptor for as long as it is ready.
//	Edge     a Wait reports it after each change to ready. A kernel without
//	         edges (poll) may repeat the event while it stays ready, so ask
//	         for Write only while there is something to write.
//	OneShot  one Wait reports it once; then it is silent, in both directions,
//	         until Modify arms it again.
//
// Whoever closes a descriptor deletes it first. Otherwise a kernel may go on
// watching the number, and report whoever gets it next under the old token.
package kernel

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"time"
)

// Kernel is everything a loop needs from below. Its parts are interfaces so
// that a simulated world can stand in for the system, whole or in part.
type Kernel struct {
	Poller
	Sockets
	Clock
	Rand
	Workers
	Resolver
	Follower
}

// ErrUnknownBackend is wrapped by Open's error for a name it does not know.
var ErrUnknownBackend = errors.New("kernel: unknown backend")

// Interest says which directions of a descriptor are watched.
type Interest uint8

const (
	Read  Interest = 1 << iota // data, a new connection, or end of file
	Write                      // room to write, or a finished connect
)

// Ready says what became of a watched descriptor. Its first two bits are those
// of Interest.
type Ready uint8

const (
	Readable Ready = 1 << iota // a read will not block
	Writable                   // a write will not block
	HangUp                     // the peer will send no more; read to the end
	Failed                     // an error is pending on the descriptor
	Urgent                     // reads may end before what is there does: TCP's urgent data
)

// Mode says how often a ready descriptor is reported; see the package comment.
type Mode uint8

const (
	Level Mode = iota
	Edge
	OneShot
)

// String lists what is set, as "readable|hang-up".
func (r Ready) String() string {
	return bitNames(uint8(r), "readable", "writable", "hang-up", "failed", "urgent")
}

// String lists what is set, as "read|write".
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

// String is the mode's name.
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

// Token names one registration of a descriptor. The caller chooses it (a slab
// index and a generation, so that a reused number is told from its
// predecessor); the kernel hands it back and never looks inside. The token with
// every bit set is the kernel's own.
type Token uint64

// Event is one answer of Wait.
type Event struct {
	Token Token
	Ready Ready
}

// Poller reports readiness.
type Poller interface {
	// Name is the backend's name: "epoll", "kqueue", "poll", …
	Name() string

	// Add begins to watch fd. Interest is never empty. What cannot be polled
	// is refused with EPERM, a descriptor already added with EEXIST.
	Add(fd int, tok Token, in Interest, mode Mode) error

	// Modify replaces token, interest and mode of an added fd, and arms a
	// one-shot again. An edge that is already there is reported anew.
	Modify(fd int, tok Token, in Interest, mode Mode) error

	// Delete ends the watch: no later Wait reports it.
	Delete(fd int) error

	// Wait fills events with what is ready and returns how many it filled.
	// It waits until something is ready, until timeout has passed, or until
	// Wake; a negative timeout waits without limit, zero only looks. It never
	// returns much before the timeout with nothing to tell, except after a
	// Wake or an interrupting signal: the caller looks at the clock again.
	// Error and hang-up are reported with every direction that was asked for,
	// so that a callback for either direction learns of them; a hang-up of the
	// peer's sending side alone is reported only where Read was asked for.
	Wait(events []Event, timeout time.Duration) (int, error)

	// Wake makes the Wait that is under way, or else the next one, return.
	// Wakes before that Wait are one. It may be called from any goroutine,
	// also after Close.
	Wake()

	// Close releases the poller. Descriptors that were added stay open.
	Close() error
}

// Clock tells the time.
type Clock interface {
	// Mono is a clock that never goes back, in time since some fixed moment.
	Mono() time.Duration
	// Wall is the time of day.
	Wall() time.Time
	// At returns the time of day at which Mono shows, or has shown, mono. For
	// the same mono it is the same time, unless the clock was set meanwhile.
	At(mono time.Duration) time.Time
}

// Rand is a source of random numbers; it is a math/rand/v2.Source.
type Rand interface {
	Uint64() uint64
}

// Workers runs what may block, away from the loop.
type Workers interface {
	// Start runs work concurrently with the loop and returns at once.
	Start(work func())
}

// Resolver turns names into addresses. It blocks: call it on a worker.
type Resolver interface {
	// LookupNetIP looks up host; network is "ip", "ip4" or "ip6".
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Follower tells of the end of contexts.
type Follower interface {
	// AfterFunc is context.AfterFunc: it has f called once ctx has ended, and
	// stop takes that back. A real kernel calls f on a goroutine of its own. A
	// simulated one calls it inside Wait: a goroutine would come at no
	// particular moment.
	AfterFunc(ctx context.Context, f func()) (stop func() bool)
}

// Witness is a Poller that wants to know of goroutines besides the loop's. A real
// one does not; in a simulated world they make every run another one.
type Witness interface {
	// Attend is called by a new loop. foreign reports whether the loop runs, and
	// not on the calling goroutine. owner is the goroutine that runs it now, as
	// goid.Current identifies it; it may be called from any goroutine.
	Attend(foreign func() bool, owner func() uintptr)
	// Foreign is told, by the goroutine itself, that one that is not the loop's
	// has handed it something.
	Foreign()
}

// Crew is a Poller of a system in which goroutines are not free to run: loops that
// are to run at the same time are run by it.
type Crew interface {
	// Processors is how many loops a group has that asks for one on each.
	Processors() int
	// Sibling makes another kernel of the same process: descriptors are those
	// of both.
	Sibling() (*Kernel, error)
	// Together runs the functions, the first for this kernel and one for each
	// sibling, in the order in which they were made, and returns when all have
	// returned.
	Together(run []func())
}
