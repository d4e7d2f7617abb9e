package ws

import (
	"sync"
	"time"
)

// deadline is the read or the write deadline of a Conn. Several calls share it: a call sets
// and clears it for itself, while a Close in another task or goroutine relies on its own. So
// the deadline of a Close stays, and no call can set a later one.
type deadline struct {
	mu   sync.Mutex
	last time.Time // that of a Close; guarded by mu
}

// set sets the deadline of a call with apply. The zero Time clears it.
func (d *deadline) set(apply func(time.Time) error, t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.last.IsZero() && (t.IsZero() || t.After(d.last)) {
		t = d.last
	}
	return apply(t)
}

// setLast sets the deadline of a Close with apply.
func (d *deadline) setLast(apply func(time.Time) error, t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = t
	_ = apply(t) // fails only on a closed connection
}

func (c *Conn) setReadDeadline(t time.Time) error  { return c.reads.set(c.nc.SetReadDeadline, t) }
func (c *Conn) setWriteDeadline(t time.Time) error { return c.writes.set(c.nc.SetWriteDeadline, t) }
