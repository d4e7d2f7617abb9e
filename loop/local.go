package loop

import "slices"

// local is something that a layer above keeps with a loop.
type local struct{ key, value any }

// Local is what SetLocal has put under key; nil if nothing. It is for layers that
// have something once for each loop, and find it again by a key of a type of
// their own.
func (l *Loop) Local(key any) any {
	l.only("Local")
	for i := range l.locals {
		if l.locals[i].key == key {
			return l.locals[i].value
		}
	}
	return nil
}

// SetLocal puts a value under a key that has none yet. When the loop is closed,
// Close calls the value's method LoopClosing, if it has one, with or without an
// error as its result, while the loop can still be used; the last value to come is
// the first. Close returns the errors. It treats a panic as one in a callback, and
// returns that too.
func (l *Loop) SetLocal(key, value any) {
	l.only("SetLocal")
	if l.Local(key) != nil {
		panic("loop: SetLocal of a key that has a value")
	}
	l.locals = append(l.locals, local{key, value})
}

// closeLocals ends what layers above keep with the loop, also what is put there
// meanwhile.
func (l *Loop) closeLocals() {
	l.RunOwed()
	for len(l.locals) > 0 {
		last := l.locals[len(l.locals)-1]
		l.guard(func() {
			switch v := last.value.(type) {
			case interface{ LoopClosing() }:
				v.LoopClosing()
			case interface{ LoopClosing() error }:
				l.closeErr(v.LoopClosing())
			}
		})
		l.closeErr(l.failure)
		l.locals = slices.DeleteFunc(l.locals, func(x local) bool { return x.key == last.key })
		l.RunOwed()
	}
}
