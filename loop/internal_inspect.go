package loop

import (
	"fmt"
	"slices"
	"time"

	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/probe"
	"github.com/spindleloop/spindle/internal/workers"
)

// ID returns the number of the loop among those of the process. Any goroutine may call it.
func (c *internals) ID() uint64 { return c.id }

// Name returns the loop's name. Any goroutine may call it.
func (c *internals) Name() string {
	if c.opts.Name != "" {
		return c.opts.Name
	}
	return fmt.Sprintf("loop %d", c.id)
}

// Pulse is odd while callbacks run and even while the loop waits in the kernel. It grows
// with every poll. Any goroutine may call it.
func (c *internals) Pulse() uint32 { return c.pulse.Load() }

// LastPoll returns when the kernel was last polled, on the loop's clock. Any goroutine may
// call it: it is for observers that must not depend on the loop, which may be blocked.
//
// The access is plain on purpose, like those of identity: the loop writes the word after
// every poll, and an atomic store there would be paid for by all loops. A word of 64 bits
// can be torn on a machine of 32 bits, so callers check that the result is plausible.
//
//go:norace
func (c *internals) LastPoll() time.Duration { return c.now }

// ReadyIn returns the number of entries in the lane of p that will run.
func (c *internals) ReadyIn(p Priority) int { return c.lanes[p].waiting() }

// InboxLen returns the number of entries in the inbox. Any goroutine may call it.
func (c *internals) InboxLen() int { return c.inbox.len() }

// Watched returns the number of descriptors that are watched. Any goroutine may call it.
func (c *internals) Watched() int { return int(c.watches.active.Load()) }

// WatchRow returns what is at index i of the table of watched descriptors; the watcher is nil
// if the row is free. It reports false beyond the last row. Rows do not move.
func (c *internals) WatchRow(i int) (w watcher, fd int, tok kernel.Token, ok bool) {
	s := &c.watches
	if i>>watchPageBits >= len(s.pages) {
		return nil, 0, 0, false
	}
	row := s.row(uint32(i))
	return row.watcher, int(row.fd), kernel.NewToken(uint32(i), row.gen), true
}

// WorkerCounts returns the numbers of the loop's own workers, and then of each pool that it
// has used. Any goroutine may call it.
func (c *internals) WorkerCounts() (all []workers.Counts) {
	(*Loop)(c).eachPool(func(w *workerPool) { all = append(all, w.counts()) })
	return all
}

// Phases returns how long the phases of turns took, nil unless SetPhases has turned that on.
func (c *internals) Phases() *probe.Phases { return c.phases }

// SetPhases sets where the loop counts how long the phases of turns take; nil for nowhere.
func (c *internals) SetPhases(p *probe.Phases) { c.phases = p }

// Lags returns how late timers were.
func (c *internals) Lags() probe.Lags { return c.lags }

// NoteBlocked remembers a turn that takes too long. Any goroutine may call it.
func (c *internals) NoteBlocked(b probe.BlockedTurn) { (*Loop)(c).noteBlocked(b) }

// EndBlocked notes how long the turn took in all that was noted last. Any goroutine may call
// it.
func (c *internals) EndBlocked(took time.Duration) { (*Loop)(c).endBlocked(took) }

// BlockedTurns returns the last blocked turns, oldest first, and how many there were. Any
// goroutine may call it.
func (c *internals) BlockedTurns() (last []probe.BlockedTurn, total uint64) {
	c.blocked.mu.Lock()
	defer c.blocked.mu.Unlock()
	return slices.Clone(c.blocked.turns), c.blocked.total
}

// DescribeRunning sets the function that RunningTask calls. The function must be safe to
// call from any goroutine while the loop runs.
func (c *internals) DescribeRunning(fn func() string) { c.task.Store(&fn) }

// RunningTask describes the task that is running, or returns "" if there is none. Any
// goroutine may call it. It is for diagnostics of a loop that is blocked: if the loop goes
// on meanwhile, the result may be of any task.
func (c *internals) RunningTask() string {
	if fn := c.task.Load(); fn != nil {
		return (*fn)()
	}
	return ""
}

// SetHost sets the host of the loop. Any goroutine may call it.
func (c *internals) SetHost(h probe.Host) { c.host.Store(&h) }

// Host returns the host, or nil for most loops. Any goroutine may call it.
func (c *internals) Host() probe.Host {
	if h := c.host.Load(); h != nil {
		return *h
	}
	return nil
}

// Lend calls fn with the caller as the owner and the present time as TurnTime. It is for a
// loop that is suspended in Wait of a simulated kernel: nothing else uses the loop meanwhile.
func (c *internals) Lend(fn func()) {
	owner, now := c.owner.Load(), c.now
	defer func() {
		c.owner.Store(owner)
		c.now = now
	}()
	c.owner.Store(goid.Current())
	c.now = c.k.Mono()
	fn()
}
