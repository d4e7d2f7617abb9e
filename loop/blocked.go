package loop

import (
	"slices"
	"sync"
	"time"

	"github.com/spindleloop/spindle/internal/probe"
)

// keepBlocked is how many blocked turns a loop remembers.
const keepBlocked = 64

// blockedTurns is the last blocked turns of a loop.
type blockedTurns struct {
	mu    sync.Mutex
	turns []probe.BlockedTurn // oldest first; guarded by mu
	total uint64              // so far; guarded by mu
}

// noteBlocked remembers a turn that takes too long. Any goroutine may call it.
func (l *Loop) noteBlocked(b probe.BlockedTurn) {
	l.blocked.mu.Lock()
	defer l.blocked.mu.Unlock()
	l.blocked.total++
	if len(l.blocked.turns) == keepBlocked {
		l.blocked.turns = slices.Delete(l.blocked.turns, 0, 1)
	}
	l.blocked.turns = append(l.blocked.turns, b)
}

// endBlocked notes how long the turn took in all that was noted last. It may have been noted
// twice: as starved, and then as blocked. Any goroutine may call it.
func (l *Loop) endBlocked(took time.Duration) {
	l.blocked.mu.Lock()
	defer l.blocked.mu.Unlock()
	for i := range l.blocked.turns {
		if turn := &l.blocked.turns[i]; !turn.Ended {
			turn.For, turn.Ended = took, true
		}
	}
}
