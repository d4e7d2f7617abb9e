package web

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/http1"
	"github.com/spindleloop/spindle/internal/http2"
	"github.com/spindleloop/spindle/internal/probe"
	"github.com/spindleloop/spindle/loop"
)

// loopState is what the connections of a service share on one loop: everything that a
// connection needs only while it is active. Loop goroutine only, except where noted.
type loopState struct {
	sv    *Service
	l     *loop.Loop
	ended bool // guarded by sv.mu

	parser  *http1.RequestParser // for the next connection that needs one; nil while in use
	spare   []*http1.RequestParser
	drafts  []*draft
	buffers [][]byte
	vec     [][]byte // for a write of several buffers
	rest    []byte   // what follows the request that is being started
	out     []byte   // what lean handlers have answered in this callback
	lean    LeanCtx
	host    string           // of the last request: nearly always that of the next one
	remotes map[*conn]string // addresses of active connections

	begin  string        // the status line of a 200, and date
	date   string        // the field Date as a line; a part of begin
	dateAt time.Duration // when the second of date began

	// For HTTP/2.
	h2         *http2.Shared // nil before the first connection
	dirty      []*h2Conn     // have frames to send at the end of the turn
	flushFunc  func()        // the method flushDirty, made once
	frameBufs  [][]byte
	dataHeads  []byte // of DATA frames that are sent together
	leanStream h2Stream
	begun      []*exchange // of the connection that is being read; have a head, and no handler yet
	maxStreams int         // handlers of one connection that run at the same time
	maxTarget  int         // bytes of a method and a path
	h2Date     string      // the field Date, encoded
	h2DateLine string      // the line that h2Date is made from

	heads, idle, bodies, lingering timeoutList
	leaving                        timeoutList // HTTP/2 connections that have announced their end
	writeTimeout                   time.Duration

	log   accessLog
	meter *probe.RequestMeter // nil unless an inspector counts requests

	observer *connObserver // nil for most servers

	nursery  *spindle.Nursery // of inline handlers; nil before the first
	endTasks func(done func(error))

	onlyProcessor bool   // GOMAXPROCS was 1 when the state was made
	yields        bool   // yield is scheduled for the end of the turn
	yieldFunc     func() // the method yield, made once

	mode   serviceMode
	closed bool // the loop is closed

	mu       sync.Mutex
	finished []*exchange // by workers, not taken yet; guarded by mu
	taken    []*exchange // the other half of finished
	take     func()
}

// serviceMode is what happens to a connection after the request under way.
//
//	keepAlive ◀──SetKeepAlivesEnabled──▶ closeIdle
//	    └────────Drain, Close──────▶ draining ◀──┘
type serviceMode uint8

const (
	modeKeepAlive serviceMode = iota // it waits for the next request
	modeCloseIdle                    // it is closed; keep-alives are disabled
	modeDraining                     // it is closed, and so are new connections, at once or after DrainIdle
)

// newLoopState makes the service's state on a loop. The caller is on the loop, or the loop
// does not run yet.
func newLoopState(sv *Service, l *loop.Loop) *loopState {
	s := sv.server
	st := &loopState{sv: sv, l: l, begin: http1.OK, dateAt: -time.Hour, remotes: make(map[*conn]string)}
	st.observer = newObserver(sv)
	st.heads.init(l, limited(s.HeaderTimeout, 10*time.Second), (*conn).headTimedOut)
	st.idle.init(l, limited(s.IdleTimeout, 2*time.Minute), (*conn).hangUp)
	st.bodies.init(l, limited(s.BodyTimeout, 5*time.Minute), (*conn).bodyTimedOut)
	st.lingering.init(l, lingerTime, (*conn).hangUp)
	st.leaving.init(l, leaveTime, (*conn).hangUp)
	st.flushFunc = st.flushDirty
	st.maxStreams = 250
	if o := s.HTTP2; o != nil && o.MaxConcurrentStreams > 0 {
		st.maxStreams = o.MaxConcurrentStreams
	}
	if st.maxTarget = s.MaxRequestLineBytes; st.maxTarget <= 0 {
		st.maxTarget = 8 << 10
	}
	st.writeTimeout = limited(s.WriteTimeout, 30*time.Second)
	st.log = accessLog{l: l, to: s.AccessLog}
	st.onlyProcessor = runtime.GOMAXPROCS(0) == 1
	st.yieldFunc = st.yield
	st.take = st.takeFinished
	sv.perLoop.Set(l, st)
	return st
}

// takeParser returns a parser that is between two messages.
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

// giveParser takes back a parser that is between two messages.
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
	keepTail   = 256 // bytes of a draft's trailers
	bufferSize = 4 << 10
)

// takeBuffer returns an empty buffer of bufferSize.
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
	if last := len(st.drafts) - 1; last >= 0 {
		d := st.drafts[last]
		st.drafts = st.drafts[:last]
		return d
	}
	if d, ok := moreDrafts.Get().(*draft); ok {
		return d
	}
	return &draft{head: st.takeBuffer(), buf: st.takeBuffer(), declared: -1}
}

// giveDraft takes a draft back. A buffer that has grown is not kept, so that idle drafts
// stay small.
func (st *loopState) giveDraft(d *draft) {
	if cap(d.head) != bufferSize || cap(d.buf) != bufferSize {
		st.giveBuffer(d.head)
		st.giveBuffer(d.buf)
		return
	}
	tail := d.tail[:0]
	if cap(tail) > keepTail {
		tail = nil
	}
	*d = draft{head: d.head[:0], buf: d.buf[:0], tail: tail, declared: -1}
	if len(st.drafts) < keepSpare {
		st.drafts = append(st.drafts, d)
	} else {
		moreDrafts.Put(d)
	}
}

// moreDrafts has the drafts of loops that have enough of them, while they are busy: hundreds of
// goroutine handlers may run at the same time.
var moreDrafts sync.Pool // of *draft

// dateLine returns the field Date as a line, or nothing if responses have none.
func (st *loopState) dateLine() string {
	if st.sv.server.NoDate {
		return ""
	}
	if now := st.l.Internal().TurnTime(); now-st.dateAt >= time.Second {
		wall := st.l.Internal().Kernel().Wall()
		// The second that the line shows began some time ago.
		st.dateAt = now - time.Duration(wall.Nanosecond())
		st.begin = string(http1.AppendDate([]byte(http1.OK), wall))
		st.date = st.begin[len(http1.OK):]
	}
	return st.date
}

// dateField returns the field Date, encoded for HTTP/2.
func (st *loopState) dateField() string {
	if line := st.dateLine(); line != st.h2DateLine { // never if there is none
		st.h2DateLine = line
		st.h2Date = encodedField("Date", line[len("Date: "):len(line)-len("\r\n")])
	}
	return st.h2Date
}

// hostString returns b as a string, mostly without a copy.
func (st *loopState) hostString(b []byte) string {
	if string(b) != st.host {
		st.host = string(b)
	}
	return st.host
}

// tasks returns the nursery of inline handlers. A handler that ends its task by
// runtime.Goexit does not affect others; conclude has logged it.
func (st *loopState) tasks() *spindle.Nursery {
	if st.nursery == nil {
		ctx := context.Background()
		if tracer := st.sv.server.Tracer; tracer != nil {
			ctx = spindle.WithTracer(ctx, tracer)
		}
		st.nursery, st.endTasks = spindle.NurseryOn(ctx, st.l)
		st.nursery.OnFailure(func(error) {})
	}
	return st.nursery
}

// LoopClosing is called when the loop is closed, possibly before the service was shut
// down. The connections are lost then, and the workers get no more work.
func (st *loopState) LoopClosing() {
	st.closed = true
	st.sv.loopStateEnded(st)
}

// yieldSoon lets other goroutines run at the end of the turn, before the loop sleeps. The
// loop would otherwise sleep on the workers' processor until the runtime notices. On a
// single processor, the garbage collector's worker needs it too, also with inline handlers:
// a busy loop never waits, so without this a cycle lasts until the loop has done the work
// itself, piece by piece as it allocates, and every write of a pointer is slow meanwhile.
func (st *loopState) yieldSoon() {
	if !st.yields {
		st.yields = true
		st.l.Internal().CallSoon(atclose.Drop, st.yieldFunc)
	}
}

func (st *loopState) yield() {
	st.yields = false
	runtime.Gosched()
}
