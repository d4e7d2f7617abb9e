package web

import (
	"context"
	"sync"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/http1"
	"github.com/spindleloop/spindle/internal/loopcore"
	"github.com/spindleloop/spindle/loop"
)

// loopState is what the connections of one loop share: everything that one of them
// needs only while it is at work. Loop goroutine only, but for what says otherwise.
type loopState struct {
	sv *Service
	l  *loop.Loop

	parser  *http1.RequestParser // for who has none of its own; nil while in use
	spare   []*http1.RequestParser
	drafts  []*draft
	buffers [][]byte
	vec     [][]byte // for a write of several buffers
	rest    []byte   // what follows the request whose handler is being started
	out     []byte   // what lean handlers have answered in this callback
	lean    LeanCtx
	host    string // the last one asked for: nearly always the next one too
	remotes map[*conn]string

	date   string // a line
	dateAt time.Duration

	heads, idle, bodies, lingering timeoutList
	writeTimeout                   time.Duration

	log accessLog

	observer *connObserver // nil for most servers

	nursery  *spindle.Nursery // of inline handlers; nil before the first
	endTasks func(done func(error))

	yields bool // workers will be let run at the end of the turn
	yield  func()

	draining   bool
	closesIdle bool  // a connection ends with the request under way: draining, or no keep-alives
	cause      error // why requests end when the loop state aborts their connections

	mu       sync.Mutex
	finished []*exchange // by workers, and not taken yet; guarded by mu
	taken    []*exchange // the other half of finished
	take     func()
}

// newLoopState makes the service's state on a loop. The loop does not run yet, or calls it.
func newLoopState(sv *Service, l *loop.Loop) *loopState {
	s := sv.server
	st := &loopState{sv: sv, l: l, dateAt: -time.Hour, remotes: make(map[*conn]string)}
	st.observer = newObserver(sv)
	st.heads.init(l, limited(s.HeaderTimeout, 10*time.Second), (*conn).headTooLate)
	st.idle.init(l, limited(s.IdleTimeout, 2*time.Minute), (*conn).hangUp)
	st.bodies.init(l, limited(s.BodyTimeout, 5*time.Minute), (*conn).bodyTooLate)
	st.lingering.init(l, lingerTime, (*conn).hangUp)
	st.writeTimeout = limited(s.WriteTimeout, 30*time.Second)
	st.log = accessLog{l: l, to: s.AccessLog}
	st.yield = st.letWorkersRun
	st.take = st.takeFinished
	sv.perLoop.Set(l.Internal(), st)
	return st
}

// takeParser is a parser that holds nothing.
func (st *loopState) takeParser() *http1.RequestParser {
	if p := st.parser; p != nil {
		st.parser = nil
		return p
	}
	if last := len(st.spare) - 1; last >= 0 {
		p := st.spare[last]
		st.spare = st.spare[:last]
		return p
	}
	return http1.NewRequestParser(st.sv.server.limits())
}

// giveParser takes back one that holds nothing any more.
func (st *loopState) giveParser(p *http1.RequestParser) {
	if st.parser == nil {
		st.parser = p
	} else if len(st.spare) < keepSpare {
		st.spare = append(st.spare, p)
	}
}

// How much is kept on a loop for the next connection that needs it.
const (
	keepSpare  = 64
	bufferSize = 4 << 10
)

// takeBuffer is an empty buffer of bufferSize.
func (st *loopState) takeBuffer() []byte {
	if last := len(st.buffers) - 1; last >= 0 {
		b := st.buffers[last]
		st.buffers = st.buffers[:last]
		return b
	}
	return make([]byte, 0, bufferSize)
}

// giveBuffer takes a buffer back, unless it has grown.
func (st *loopState) giveBuffer(b []byte) {
	if cap(b) == bufferSize && len(st.buffers) < keepSpare {
		st.buffers = append(st.buffers, b[:0])
	}
}

// takeDraft returns an empty draft.
func (st *loopState) takeDraft() *draft {
	last := len(st.drafts) - 1
	if last < 0 {
		return &draft{head: st.takeBuffer(), buf: st.takeBuffer(), declared: -1}
	}
	d := st.drafts[last]
	st.drafts = st.drafts[:last]
	return d
}

// giveDraft takes a draft back. A buffer that has grown is not kept, so that idle drafts
// stay small.
func (st *loopState) giveDraft(d *draft) {
	if cap(d.head) == bufferSize && cap(d.buf) == bufferSize && len(st.drafts) < keepSpare {
		*d = draft{head: d.head[:0], buf: d.buf[:0], declared: -1}
		st.drafts = append(st.drafts, d)
		return
	}
	st.giveBuffer(d.head)
	st.giveBuffer(d.buf)
}

// dateLine is the field Date.
func (st *loopState) dateLine() string {
	if now := st.l.Internal().TurnTime(); now-st.dateAt >= time.Second {
		wall := st.l.Internal().Kernel().Wall()
		// The wall's second began some time ago, and so did the line's.
		st.dateAt = now - time.Duration(wall.Nanosecond())
		st.date = string(http1.AppendDate(nil, wall))
	}
	return st.date
}

// hostString is b as a string; mostly without a copy.
func (st *loopState) hostString(b []byte) string {
	if string(b) != st.host {
		st.host = string(b)
	}
	return st.host
}

// tasks is the nursery of inline handlers. A handler that ends its task by
// runtime.Goexit ends no other; conclude has logged it.
func (st *loopState) tasks() *spindle.Nursery {
	if st.nursery == nil {
		st.nursery, st.endTasks = spindle.NurseryOn(context.Background(), st.l)
		st.nursery.OnFailure(func(error) {})
	}
	return st.nursery
}

// LoopClosing is called when the loop is closed, perhaps without the service having
// been shut down: then the workers get no more work.
func (st *loopState) LoopClosing() { st.sv.loopClosed() }

// gaveWork has workers run before the loop goes to sleep: on a single processor it
// would otherwise sleep on theirs, until the runtime notices.
func (st *loopState) gaveWork() {
	if !st.yields {
		st.yields = true
		st.l.Internal().CallSoon(loopcore.DropAtClose, st.yield)
	}
}
