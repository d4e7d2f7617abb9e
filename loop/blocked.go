package loopcore

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// BlockedTurn is a turn that took too long.
type BlockedTurn struct {
	At      time.Time     // when it was noticed
	For     time.Duration // how long it has lasted
	Ended   bool          // For is final
	Starved bool          // the loop got too little CPU
	Task    string        // that was running; "" for a callback
	Stack   []byte
	Line    string // the innermost one of the program; "" if Stack, which is of Go, says it
}

// keepBlocked is how many blocked turns a loop remembers.
const keepBlocked = 64

// blockedTurns is the last blocked turns of a loop.
type blockedTurns struct {
	mu    sync.Mutex
	turns []BlockedTurn // oldest first; guarded by mu
	total uint64        // so far; guarded by mu
}

// NoteBlocked remembers a turn that takes too long. Any goroutine may call it.
func (c *Loop) NoteBlocked(b BlockedTurn) {
	c.blocked.mu.Lock()
	defer c.blocked.mu.Unlock()
	c.blocked.total++
	if len(c.blocked.turns) == keepBlocked {
		c.blocked.turns = slices.Delete(c.blocked.turns, 0, 1)
	}
	c.blocked.turns = append(c.blocked.turns, b)
}

// EndBlocked notes how long the turn took in all that was noted last. It may have been noted
// twice: as starved, and then as blocked. Any goroutine may call it.
func (c *Loop) EndBlocked(took time.Duration) {
	c.blocked.mu.Lock()
	defer c.blocked.mu.Unlock()
	for i := range c.blocked.turns {
		if turn := &c.blocked.turns[i]; !turn.Ended {
			turn.For, turn.Ended = took, true
		}
	}
}

// BlockedTurns returns the last blocked turns, oldest first, and how many there were. Any
// goroutine may call it.
func (c *Loop) BlockedTurns() (last []BlockedTurn, total uint64) {
	c.blocked.mu.Lock()
	defer c.blocked.mu.Unlock()
	return slices.Clone(c.blocked.turns), c.blocked.total
}

// describer describes the task that is running.
type describer struct{ fn atomic.Pointer[func() string] }

// DescribeRunning sets the function that RunningTask calls. The function must be safe to
// call from any goroutine while the loop runs.
func (c *Loop) DescribeRunning(fn func() string) { c.running.fn.Store(&fn) }

// RunningTask describes the task that is running, or returns "" if there is none. Any
// goroutine may call it. It is for diagnostics of a loop that is blocked: if the loop goes
// on meanwhile, the result may be of any task.
func (c *Loop) RunningTask() string {
	if fn := c.running.fn.Load(); fn != nil {
		return (*fn)()
	}
	return ""
}
