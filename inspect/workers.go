package inspect

import (
	"cmp"
	"slices"
)

// Pool is a pool of workers that the loop has used, besides its own: a spindle.Pool, or one of
// those that packages of this module have for TLS handshakes, name lookups and files.
type Pool struct {
	Name string `json:"name"`
	Workers
}

// Workers are the goroutines of Offload and Blocking.
type Workers struct {
	Limit  int    `json:"limit"`
	Busy   int    `json:"busy"`
	Queued int    `json:"queued"` // jobs that no worker has begun
	Done   uint64 `json:"done"`   // jobs delivered
}

// workers describes the workers of the loop's own pool, and of the others. Pools of one name
// are one row.
func (s *source) workers() (own Workers, pools []Pool) {
	pools = []Pool{} // not null
	for i, c := range s.l.Internal().WorkerCounts() {
		w := Workers{Limit: c.Limit, Busy: c.Busy, Queued: c.Queued, Done: c.Delivered}
		if i == 0 {
			own = w
			continue
		}
		name := cmp.Or(c.Pool, "unnamed")
		at := slices.IndexFunc(pools, func(p Pool) bool { return p.Name == name })
		if at < 0 {
			pools = append(pools, Pool{Name: name, Workers: w})
			continue
		}
		p := &pools[at]
		p.Limit, p.Busy, p.Queued, p.Done = p.Limit+w.Limit, p.Busy+w.Busy, p.Queued+w.Queued, p.Done+w.Done
	}
	return own, pools
}
