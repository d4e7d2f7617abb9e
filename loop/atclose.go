package loop

// AtClose says what Close does with a callback that has not run by then.
type AtClose uint8

const (
	// LoseAtClose reports the callback in Close's *LostError. CallSoon, Post
	// and Offload do that.
	LoseAtClose AtClose = iota
	// DropAtClose forgets the callback. It is for a sender that learns of the
	// end by Done, or by the end of what the callback works for.
	DropAtClose
	// RunAtClose runs the callback during Close, while the loop can still be
	// used. It is for a receiver that must be told in any case.
	RunAtClose
)

// CallSoonWith is CallSoon for a callback with which Close deals as at says. There
// is no handle to cancel it by.
func (l *Loop) CallSoonWith(at AtClose, fn func()) {
	l.only("CallSoonWith")
	if fn == nil {
		panic("loop: CallSoonWith with a nil callback")
	}
	if at == LoseAtClose {
		l.lanes[Normal].push(fn)
		return
	}
	l.lanes[Normal].pushCoroutine(at.entry(fn))
}

// PostWith is Post for a callback with which Close deals as at says. After Close
// it returns ErrClosed, and fn does not run, whatever at is.
func (l *Loop) PostWith(at AtClose, fn func()) error {
	if fn == nil {
		panic("loop: PostWith with a nil callback")
	}
	if at == LoseAtClose {
		return l.post(fn, nil)
	}
	return l.post(nil, at.entry(fn))
}

// entry is fn as an entry of a lane. A function is one pointer, so that the
// interface needs no memory of its own.
func (at AtClose) entry(fn func()) Coroutine {
	switch at {
	case DropAtClose:
		return dropped(fn)
	case RunAtClose:
		return owed(fn)
	}
	panic("loop: unknown AtClose")
}

// dropped is a callback that Close forgets, and owed one that Close runs.
type (
	dropped func()
	owed    func()
)

// Resume runs the callback.
func (fn dropped) Resume() { fn() }

// Resume runs the callback.
func (fn owed) Resume() { fn() }

// RunOwed runs the callbacks that were scheduled with RunAtClose and have not run,
// also those that come meanwhile. A panic of one is an error of Close. It is for
// LoopClosing: Close calls it before the first of these, after each of them and at
// the end.
func (l *Loop) RunOwed() {
	l.only("RunOwed")
	for !l.guard(l.runOwed) {
		l.closeErr(l.failure)
	}
}

func (l *Loop) runOwed() {
	if l.inbox.waiting.Load() {
		l.takeInbox()
	}
	q := &l.lanes[Normal]
	for l.owedAt = max(l.owedAt, q.head); l.owedAt != q.tail; {
		at := q.at(l.owedAt)
		l.owedAt++ // before the call: it may panic
		if fn, ok := at.co.(owed); ok {
			at.co = nil
			q.cancelled++
			fn()
		}
	}
}

// closeErr has Close return err too.
func (l *Loop) closeErr(err error) {
	if err != nil {
		l.closeErrs = append(l.closeErrs, err)
	}
	l.failure = nil
}
