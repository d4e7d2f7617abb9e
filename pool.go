package spindle

import (
	"context"

	"github.com/spindleloop/spindle/internal/workers"
)

// Pool limits the calls of Blocking that run at a time, apart from those of other pools:
//
//	var db = &spindle.Pool{Name: "db", Limit: 20}
//
//	user, err := spindle.Blocking(db.In(ctx), func() (User, error) { return load(id) })
//
// Calls beyond the limit wait in order. A pool that is full delays no call of another pool,
// nor those without one. If calls have waited for 100 ms, that is logged, once for each pool
// and loop. Package inspect and its metrics show each pool.
//
// Make a pool once, as a variable of a package or a field of a server, and do not copy or
// change it afterwards. Any loop may use it. Each loop counts its own calls, as it does for
// loop.Options.Workers. The zero Pool is unnamed, and has as many workers as the loop's own
// pool.
type Pool struct {
	Name  string // for logs, inspect and metrics
	Limit int    // the most calls that run at a time, on each loop; zero means loop.Options.Workers
}

// In returns a context for calls that are to use the pool: Blocking, Abandon, and the
// functions of package files. Tasks and scopes that are made with it use the pool too.
func (p *Pool) In(ctx context.Context) context.Context {
	return context.WithValue(ctx, poolKey{}, p)
}

// poolKey is the context key of the pool.
type poolKey struct{}

// poolOf returns the pool of ctx, or nil for the loop's own.
func poolOf(ctx context.Context) *workers.Pool {
	p, _ := ctx.Value(poolKey{}).(*Pool)
	return (*workers.Pool)(p)
}
