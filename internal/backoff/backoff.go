// Package backoff computes the pauses between attempts that fail.
package backoff

import "time"

// Backoff is the pause after each failure in a row: First, and then twice the pause before, up to
// Most.
type Backoff struct {
	First, Most time.Duration
	last        time.Duration // zero if there was no failure
}

// Next returns the pause after another failure.
func (b *Backoff) Next() time.Duration {
	switch {
	case b.last == 0:
		b.last = min(b.First, b.Most)
	case b.last > b.Most/2: // twice the pause may overflow
		b.last = b.Most
	default:
		b.last *= 2
	}
	return b.last
}

// Reset forgets the failures.
func (b *Backoff) Reset() { b.last = 0 }
