package loop

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/spindleloop/spindle/internal/kernel"
)

// Group is several loops that know nothing of each other, each on its own
// goroutine: one per core, usually.
type Group struct {
	loops []*Loop
	crew  kernel.GroupRunner // runs them, in a simulated world; nil otherwise
	turn  atomic.Uint32      // where the next search for the least loaded begins
}

// NewGroup makes n loops; n <= 0 makes one for each processor Go may use.
// Options.Kernel is for groups only if it is a simulated one.
func NewGroup(n int, opts Options) (*Group, error) {
	g := &Group{}
	if opts.Kernel != nil {
		crew, ok := opts.Kernel.Poller.(kernel.GroupRunner)
		if !ok {
			panic("loop: NewGroup with Options.Kernel: loops cannot share one")
		}
		g.crew = crew
	}
	switch {
	case n > 0:
	case g.crew != nil:
		n = g.crew.Processors()
	default:
		n = runtime.GOMAXPROCS(0)
	}
	for i := range n {
		if g.crew != nil && i > 0 {
			var err error
			if opts.Kernel, err = g.crew.Sibling(); err != nil {
				return nil, errors.Join(&OpError{Op: "new", FD: noFD, Err: err}, g.Close())
			}
		}
		l, err := New(opts)
		if err != nil {
			return nil, errors.Join(err, g.Close())
		}
		g.loops = append(g.loops, l)
	}
	return g, nil
}

// Loops are the group's loops.
func (g *Group) Loops() []*Loop { return g.loops }

// Run runs every loop on a goroutine of its own until ctx ends or Stop, and
// returns when all have ended. If one fails or is stopped, the others end with
// it. Different errors are joined.
func (g *Group) Run(ctx context.Context) error {
	for _, l := range g.loops {
		// Here, where the caller can see it: a panic of Run on a goroutine of
		// the group would end the program.
		if l.state.Load() != idle {
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
	g.together(run)
	// What ended one loop is the cause that ended the others: say it once.
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

// together runs functions at the same time, and returns when all have returned.
func (g *Group) together(run []func()) {
	if g.crew != nil {
		g.crew.Together(run)
		return
	}
	var all sync.WaitGroup
	for _, fn := range run {
		all.Go(fn)
	}
	all.Wait()
}

// errStopped is why the loops of a group end when one of them was stopped.
var errStopped = errors.New("loop: stopped")

// Stop ends Run. It may be called from any goroutine.
func (g *Group) Stop() { g.loops[0].Stop() }

// Go runs fn on the least loaded loop: the one with the fewest descriptors,
// waiting posts and jobs. It may be called from any goroutine.
func (g *Group) Go(fn func(*Loop)) error {
	if fn == nil {
		panic("loop: Group.Go with a nil function")
	}
	l := g.least()
	return l.post(nil, groupCall{l, fn})
}

// groupCall is a function of Group.Go on its way, for which Close knows its name.
type groupCall struct {
	l  *Loop
	fn func(*Loop)
}

// Resume calls it.
func (c groupCall) Resume() { c.fn(c.l) }

// least begins its search one further each time, so that equals take turns.
func (g *Group) least() *Loop {
	from := int(g.turn.Add(1) % uint32(len(g.loops)))
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
	return int(l.fds.Load()) + l.inbox.len() + l.workers.unfinished()
}

// Close closes every loop; like Loop.Close it is refused while one runs, and then
// closes none.
func (g *Group) Close() error {
	for _, l := range g.loops {
		if l.state.Load() == running {
			return ErrRunning
		}
	}
	errs := make([]error, 0, len(g.loops))
	for _, l := range g.loops {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}
