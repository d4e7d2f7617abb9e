package loopcore

import (
	"fmt"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
)

// ID returns the number of the loop among those of the process. Any goroutine may call it.
func (c *Loop) ID() uint64 { return c.id }

// Name returns the loop's name. Any goroutine may call it.
func (c *Loop) Name() string {
	if c.config.Name != "" {
		return c.config.Name
	}
	return fmt.Sprintf("loop %d", c.id)
}

// Outer returns the *loop.Loop that contains c. Any goroutine may call it.
func (c *Loop) Outer() any { return c.config.Outer }

// LastPoll returns when the kernel was last polled, on the loop's clock. Any goroutine may
// call it: it is for observers that must not depend on the loop, which may be blocked.
//
// The access is plain on purpose, like those of identity: the loop writes the word after
// every poll, and an atomic store there would be paid for by all loops. A word of 64 bits
// can be torn on a machine of 32 bits, so callers check that the result is plausible.
//
//go:norace
func (c *Loop) LastPoll() time.Duration { return c.now }

// ReadyIn returns the number of entries in the lane of p that will run.
func (c *Loop) ReadyIn(p Priority) int { return c.lanes[p].waiting() }

// WatchRow returns the row at index i of the table of watched descriptors, or nil if it is
// free. It reports false beyond the last row. Rows do not move.
func (c *Loop) WatchRow(i int) (row *Watch, tok kernel.Token, ok bool) {
	s := &c.watches
	if i>>watchPageBits >= len(s.pages) {
		return nil, 0, false
	}
	w := s.row(uint32(i))
	if w.Watcher == nil {
		return nil, 0, true
	}
	return w, kernel.Token(w.gen)<<32 | kernel.Token(i), true
}
