package loopcore

import "slices"

// PerLoop is a set of values, at most one for each loop. A package that has a state per
// loop has a variable of this type:
//
//	var states loopcore.PerLoop[state]
//
//	func stateOf(l *loop.Loop) *state {
//		return states.Get(l.Internal(), func() *state { return &state{l: l} })
//	}
//
// The values are kept with their loops. When a loop is closed, Close calls the method
// LoopClosing of each value that has one, with or without an error as its result, while
// the loop can still be used. The newest value is the first. Close returns the errors,
// and reports a panic like one of a callback.
//
// The zero value is an empty set. A PerLoop must not be copied: its address identifies
// it.
type PerLoop[T any] struct{ key byte }

// value is a value of a PerLoop. The key is the address of the PerLoop's field.
type value struct {
	key   *byte
	value any
}

// Of returns the value of loop c, or nil if it has none.
func (p *PerLoop[T]) Of(c *Loop) *T {
	c.Only("PerLoop.Of")
	for i := range c.values {
		if c.values[i].key == &p.key {
			return c.values[i].value.(*T)
		}
	}
	return nil
}

// Get returns the value of loop c. If c has none, Get adds the one that create returns;
// values that create adds are older.
func (p *PerLoop[T]) Get(c *Loop, create func() *T) *T {
	v := p.Of(c)
	if v == nil {
		v = create()
		p.Set(c, v)
	}
	return v
}

// Set adds the value of loop c, which has none yet.
func (p *PerLoop[T]) Set(c *Loop, v *T) {
	if p.Of(c) != nil {
		panic("loopcore: PerLoop.Set on a loop that has a value")
	}
	c.values = append(c.values, value{&p.key, v})
}

// EachValue calls fn with the values of all PerLoops of loop c, oldest first.
func (c *Loop) EachValue(fn func(v any)) {
	c.Only("EachValue")
	for _, v := range slices.Clone(c.values) {
		fn(v.value)
	}
}

// Remove removes the value of loop c. LoopClosing is not called for it.
func (p *PerLoop[T]) Remove(c *Loop) {
	c.Only("PerLoop.Remove")
	c.values = slices.DeleteFunc(c.values, func(v value) bool { return v.key == &p.key })
}
