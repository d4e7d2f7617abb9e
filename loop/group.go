package loop

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/spindleloop/spindle/internal/kernel"
)

// Group is a number of independent loops, each on its own goroutine: usually one per
// core.
type Group struct {
	loops []*Loop
	sim   kernel.GroupRunner // runs the loops in a simulated world; nil otherwise
	first atomic.Uint32      // where the next search for the least loaded loop begins
}

// NewGroup makes n loops; n <= 0 makes one for each processor that Go may use. If there are
// several, a number follows Options.Name in the name of each.
func NewGroup(n int, opts Options) (*Group, error) {
	g := &Group{}
	if opts.kernel != nil {
		runner, ok := opts.kernel.Poller.(kernel.GroupRunner)
		if !ok {
			panic("loop: NewGroup with a kernel of Internal: loops cannot share a real kernel")
		}
		g.sim = runner
	}
	switch {
	case n > 0:
	case g.sim != nil:
		n = g.sim.Processors()
	default:
		n = runtime.GOMAXPROCS(0)
	}
	for i := range n {
		if g.sim != nil && i > 0 {
			var err error
			if opts.kernel, err = g.sim.Sibling(); err != nil {
				return nil, errors.Join(opError("new", noFD, err), g.Close())
			}
		}
		named := opts
		if opts.Name != "" && n > 1 {
			named.Name = fmt.Sprintf("%s %d", opts.Name, i+1)
		}
		l, err := New(named)
		if err != nil {
			return nil, errors.Join(err, g.Close())
		}
		g.loops = append(g.loops, l)
	}
	return g, nil
}

// Loops returns the loops of the group.
func (g *Group) Loops() []*Loop { return g.loops }

// Run runs every loop on its own goroutine until ctx ends or Stop is called, and returns
// when all loops have ended. If a loop fails or is stopped, the others end as well.
// Different errors are joined.
func (g *Group) Run(ctx context.Context) error {
	for _, l := range g.loops {
		// Checked here, on the caller's goroutine: a panic of Run on a goroutine of
		// the group would end the program.
		if l.isRunning() || l.isClosed() {
			panic("loop: Group.Run on a group that is closed or running")
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	errs := make([]error, len(g.loops))
	run := make([]func(), len(g.loops))
	for i, l := range g.loops {
		run[i] = func() {
			if errs[i] = l.Run(ctx); errs[i] == nil {
				errs[i] = errStopped
			}
			cancel(errs[i])
		}
	}
	g.runAll(run)
	for _, l := range g.loops {
		l.stop.Store(false) // for this Run, even if the loop had ended before its siblings
	}
	// The error of one loop is the cause that ended the others: report it once.
	var distinct error
	for _, err := range errs {
		switch {
		case err == errStopped || errors.Is(distinct, err):
		case distinct == nil:
			distinct = err
		default:
			distinct = errors.Join(distinct, err)
		}
	}
	return distinct
}

// runAll runs the functions at the same time, and returns when all have returned.
func (g *Group) runAll(run []func()) {
	if g.sim != nil {
		g.sim.Together(run)
		return
	}
	var all sync.WaitGroup
	for _, fn := range run {
		all.Go(fn)
	}
	all.Wait()
}

// errStopped is the cause that ends the loops of a group when one of them was stopped.
var errStopped = errors.New("loop: stopped")

// Stop makes Run return. If the group is not running, the next Run returns at once. Any
// goroutine may call it, any number of times.
func (g *Group) Stop() { g.loops[0].Stop() }

// Go runs fn on the least loaded loop: the one with the fewest descriptors, posted
// callbacks and jobs. Any goroutine may call it.
func (g *Group) Go(fn func(*Loop)) error {
	if fn == nil {
		panic("loop: Group.Go with a nil function")
	}
	l := g.least()
	return l.postEntry(nil, groupCall{l, fn})
}

// groupCall is a posted function of Group.Go. Its type lets Close report fn by name.
type groupCall struct {
	l  *Loop
	fn func(*Loop)
}

// Resume calls the function.
func (c groupCall) Resume() { c.fn(c.l) }

// least returns the least loaded loop. Each search begins one loop further, so that loops
// with equal load take turns.
func (g *Group) least() *Loop {
	from := int(g.first.Add(1) % uint32(len(g.loops)))
	var best *Loop
	lowest := 0
	for i := range g.loops {
		l := g.loops[(from+i)%len(g.loops)]
		if load := l.load(); best == nil || load < lowest {
			best, lowest = l, load
		}
	}
	return best
}

func (l *Loop) load() int {
	jobs, _ := l.jobs()
	return int(l.watches.active.Load()) + l.inbox.len() + jobs
}

// Close closes every loop. While a loop runs, it fails and closes none.
func (g *Group) Close() error {
	for _, l := range g.loops {
		if l.isRunning() {
			return errRunning
		}
	}
	errs := make([]error, 0, len(g.loops))
	for _, l := range g.loops {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}
