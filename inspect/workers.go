package inspect

import (
	"cmp"
	"slices"

	"github.com/spindleloop/spindle/internal/inspectapi"
)

// workers describes the workers of the loop's own pool, and of the others. Pools of one name
// are one row.
func (s *source) workers() (own inspectapi.Workers, pools []inspectapi.Pool) {
	pools = []inspectapi.Pool{} // not null
	for i, c := range s.l.Internal().WorkerCounts() {
		w := inspectapi.Workers{Limit: c.Limit, Busy: c.Busy, Queued: c.Queued, Done: c.Delivered}
		if i == 0 {
			own = w
			continue
		}
		name := cmp.Or(c.Pool, "unnamed")
		at := slices.IndexFunc(pools, func(p inspectapi.Pool) bool { return p.Name == name })
		if at < 0 {
			pools = append(pools, inspectapi.Pool{Name: name, Workers: w})
			continue
		}
		p := &pools[at]
		p.Limit, p.Busy, p.Queued, p.Done = p.Limit+w.Limit, p.Busy+w.Busy, p.Queued+w.Queued, p.Done+w.Done
	}
	return own, pools
}
