package nats

import (
	"sync"

	"github.com/nats-io/nats.go"
)

// drops counts what the client of NATS has dropped of a subscription, because it did not fit.
// The client keeps the number, but only until the subscription ends.
type drops struct {
	mu   sync.Mutex
	seen int // counted already; guarded by mu
}

// count adds what was dropped since the last time to the counts of b.
func (d *drops) count(b *Bus, s *nats.Subscription) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := s.Dropped()
	if err != nil || n <= d.seen {
		return // it has ended, or there is nothing new
	}
	b.dropped.Add(uint64(n - d.seen))
	d.seen = n
}
