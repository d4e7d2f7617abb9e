package loop

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

// SetLocal puts a value under a key that has none yet. When the loop is closed, a
// value that has a method LoopClosing is told, while the loop can still be used;
// the last to come is told first. What panics then is told of as in a callback,
// and Close returns it.
func (l *Loop) SetLocal(key, value any) {
	l.only("SetLocal")
	if l.Local(key) != nil {
		panic("loop: SetLocal of a key that has a value")
	}
	l.locals = append(l.locals, local{key, value})
}

func (l *Loop) closeLocals() {
	for i := len(l.locals) - 1; i >= 0; i-- {
		if v, ok := l.locals[i].value.(interface{ LoopClosing() }); ok {
			l.guard(v.LoopClosing)
		}
	}
	l.locals = nil
}
