package loop

import (
	"context"
	"slices"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/goid"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/workers"
)

// internals is a Loop as Spindle's other packages see it: the same struct with other methods,
// so that Internal costs nothing and the compiler inlines what is short. Everything that those
// packages may use of a loop, besides its public methods, is in this file, in internal_tasks.go
// and in internal_inspect.go.
//
// Unless its comment says otherwise, a method is for the goroutine that owns the loop.
type internals Loop

// Internal returns the loop for Spindle's own packages. It is not for other code: the methods
// of its type are not documented here, and may change in any version.
func (l *Loop) Internal() *internals { return (*internals)(l) }

// Kernel returns the interface to the operating system. Any goroutine may call it.
func (c *internals) Kernel() *kernel.Kernel { return c.k }

// Debug reports whether Options.Debug is set. Any goroutine may call it.
func (c *internals) Debug() bool { return c.opts.Debug }

// Running reports whether the loop is running. Any goroutine may call it.
func (c *internals) Running() bool { return (*Loop)(c).isRunning() }

// Closing reports whether Close has been called.
func (c *internals) Closing() bool { return c.closing }

// Only panics unless the caller may use the loop now. It repeats what the method only does,
// because a call of that would be too long to be inlined.
func (c *internals) Only(op string) {
	if owner := c.owner.Load(); owner != 0 && (owner == closedOwner || !goid.Here(owner)) {
		(*Loop)(c).refuse(op)
	}
}

// Foreign reports whether the loop is running on a goroutine other than the caller's,
// which then must not use anything that belongs to the loop. It is the check for calls
// that only the loop's goroutine may make, and costs next to nothing. Where other
// goroutines may call as well, use Owns, which is exact for them too.
func (c *internals) Foreign() bool {
	owner := c.owner.Load()
	return owner > closedOwner && !goid.Here(owner)
}

// CallSoon runs fn on the loop in a coming turn, in the Normal lane. Close treats fn as
// at says.
func (c *internals) CallSoon(at atclose.Kind, fn func()) {
	if at == atclose.Report {
		(*Loop)(c).pushNormal(fn)
		return
	}
	c.Only("CallSoon")
	if fn == nil {
		panic("loop: CallSoon with a nil callback")
	}
	c.lanes[Normal].pushCoroutine(atCloseEntry(at, fn))
}

// Post runs fn on the loop, in the Normal lane. Close treats fn as at says. Any goroutine
// may call it. After Close it returns ErrClosed, and fn does not run, whatever at is.
func (c *internals) Post(at atclose.Kind, fn func()) error {
	if fn == nil {
		panic("loop: Post with a nil callback")
	}
	if at == atclose.Report {
		return (*Loop)(c).postEntry(fn, nil)
	}
	return (*Loop)(c).postEntry(nil, atCloseEntry(at, fn))
}

// AfterFunc calls fn on the loop once ctx has ended, unless stop is called before. If the
// loop closes first, fn is not called. Any goroutine may call AfterFunc and stop.
func (c *internals) AfterFunc(ctx context.Context, fn func()) (stop func() bool) {
	return c.k.AfterFunc(ctx, func() { _ = c.Post(atclose.Drop, fn) })
}

// Offload runs work on a worker of the pool, nil for the loop's own, and then calls done on
// the loop. If work panicked or called runtime.Goexit, done receives that as a *PanicError.
// Close reports an unfinished job as lost, by the function that named is, or drops it, as at
// says.
func (c *internals) Offload(pool *workers.Pool, at atclose.Kind, named any, work func(), done func(panicked error)) (Job, error) {
	return (*Loop)(c).offload(pool, at, codeOf(named), work, done)
}

// DrainAtClose runs the callbacks of kind atclose.Run that have not run, and those that are
// added meanwhile. A panic in one of them is an error of Close. It is for methods LoopClosing
// (see internal/perloop): Close calls it before the first of these, after each and at the end.
func (c *internals) DrainAtClose() { (*Loop)(c).drainAtClose() }

// Watch calls w whenever fd is ready in a direction of in, as often as mode says. It fails
// with fs.ErrExist, with errors.ErrUnsupported, or with an error of the kernel.
func (c *internals) Watch(fd int, in kernel.Interest, mode Mode, w watcher) (kernel.Token, error) {
	return (*Loop)(c).watch(fd, in, mode, w)
}

// SetInterest changes the directions in which fd is watched. With none, the watch is
// suspended: it keeps its row, and EachWatcher still finds it.
func (c *internals) SetInterest(fd int, in kernel.Interest) error {
	row, tok := c.watches.find(fd)
	if row == nil {
		return errNotWatched
	}
	return (*Loop)(c).modifyWatch(row, tok, in, row.mode)
}

// Unwatch ends the watch of fd, if there is one. Readiness that was already collected is
// not delivered.
func (c *internals) Unwatch(fd int) { (*Loop)(c).unwatch(fd) }

// TokenOf returns the token of fd, or 0 if fd is not watched.
func (c *internals) TokenOf(fd int) kernel.Token {
	_, tok := c.watches.find(fd)
	return tok
}

// WatcherAt returns what receives the readiness for tok, or nil if the watch has ended.
func (c *internals) WatcherAt(tok kernel.Token) watcher {
	if row := c.watches.at(tok); row != nil {
		return row.watcher
	}
	return nil
}

// EachWatcher calls fn with everything that receives readiness, about newest first. fn may
// end any watch.
func (c *internals) EachWatcher(fn func(watcher)) {
	s := &c.watches
	for i := len(s.pages)<<watchPageBits - 1; i >= 0; i-- {
		if w := s.row(uint32(i)).watcher; w != nil {
			fn(w)
		}
	}
}

// Value returns the value with that key, or nil. Packages use internal/perloop.
func (c *internals) Value(key *byte) any {
	c.Only("Value")
	for i := range c.values {
		if c.values[i].key == key {
			return c.values[i].value
		}
	}
	return nil
}

// AddValue adds a value with a key that has none.
func (c *internals) AddValue(key *byte, v any) { c.values = append(c.values, value{key, v}) }

// RemoveValue removes the value with that key.
func (c *internals) RemoveValue(key *byte) {
	c.Only("RemoveValue")
	c.values = slices.DeleteFunc(c.values, func(v value) bool { return v.key == key })
}

// EachValue calls fn with the values of all packages, oldest first.
func (c *internals) EachValue(fn func(v any)) {
	c.Only("EachValue")
	for _, v := range slices.Clone(c.values) {
		fn(v.value)
	}
}
