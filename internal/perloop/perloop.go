// Package perloop keeps the values that a package has for each loop.
package perloop

import "github.com/spindleloop/spindle/loop"

// Values is a set of values, at most one for each loop. A package that has a state per
// loop has a variable of this type:
//
//	var states perloop.Values[state]
//
//	func stateOf(l *loop.Loop) *state {
//		return states.Get(l, func() *state { return &state{l: l} })
//	}
//
// The values are kept with their loops. When a loop is closed, Close calls the method
// LoopClosing of each value that has one, with or without an error as its result, while
// the loop can still be used. The newest value is the first. Close returns the errors,
// and reports a panic like one of a callback.
//
// The zero value is an empty set. A Values must not be copied: its address identifies it.
type Values[T any] struct{ key byte }

// Of returns the value of loop l, or nil if it has none.
func (p *Values[T]) Of(l *loop.Loop) *T {
	v, _ := l.Internal().Value(&p.key).(*T)
	return v
}

// Get returns the value of loop l. If l has none, Get adds the one that create returns;
// values that create adds are older.
func (p *Values[T]) Get(l *loop.Loop, create func() *T) *T {
	v := p.Of(l)
	if v == nil {
		v = create()
		p.Set(l, v)
	}
	return v
}

// Set adds the value of loop l, which has none yet.
func (p *Values[T]) Set(l *loop.Loop, v *T) {
	if p.Of(l) != nil {
		panic("perloop: Values.Set on a loop that has a value")
	}
	l.Internal().AddValue(&p.key, v)
}

// Remove removes the value of loop l. LoopClosing is not called for it.
func (p *Values[T]) Remove(l *loop.Loop) { l.Internal().RemoveValue(&p.key) }
