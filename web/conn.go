package web

import (
	"crypto/tls"
	"io"
	"net/http"
	"time"

	"github.com/spindleloop/spindle/internal/http1"
	"github.com/spindleloop/spindle/internal/loopcore"
	"github.com/spindleloop/spindle/transport"
)

// conn is a connection as its transport tells it: it cuts what comes into requests,
// and lets one at a time be answered. Loop goroutine only.
//
//	    ┌───────────── next request ─────────────┐
//	    ▼                                        │
//	 waiting ──Head──▶ answering, body open ──┐  │
//	    │                   │ End             │ answered
//	    │ cannot be read    ▼                 ▼  │
//	    │              answering ──answered──▶ skipping what is left of the body
//	    ▼                   │
//	lingering ◀── to close ─┘
//
// While a request is answered what follows it is not parsed, but kept, up to a limit.
type conn struct {
	tc   *transport.Conn
	st   *loopState
	x    *exchange // the request that is being answered
	more *more     // what a connection has only at times

	in         *timeoutList // where it waits, and since when
	since      time.Duration
	prev, next *conn

	tls      *tls.ConnectionState
	requests uint32
	flags    connFlags
}

// more is what a connection has only while a request is under way that came in pieces
// or with others behind it, or while the peer does not read.
type more struct {
	parser  *http1.RequestParser // while a message has come in part
	pending []byte               // received, and to be parsed when x was answered
	dropped int64                // bytes of a body that is skipped
	room    []func(error)        // to be called when there is room to write
	body    []byte               // of a request to a lean handler that wants it
	wanted  func(*LeanCtx, []byte)
	most    int
	toHead  bool
	record  *record
}

type connFlags uint16

const (
	consuming    connFlags = 1 << iota // the parsing loop is on the stack
	ended                              // the peer has closed its side
	skipping                           // a request was answered before its end
	collecting                         // a lean handler wants the body
	lingers                            // closed from here; what comes is dropped
	switching                          // to another protocol
	writesPaused                       // the peer reads too slowly
	readsPaused
	closesNext  // at the end of the request
	yielding    // others have a turn before what is kept is parsed
	drains      // the server began to drain; for who takes the connection over
	timesWrites // the transport has a time-out for them
	gone
)

func (c *conn) is(f connFlags) bool { return c.flags&f != 0 }

func (c *conn) extra() *more {
	if c.more == nil {
		c.more = &more{}
	}
	return c.more
}

const (
	pendingLimit = 16 << 10               // what is received ahead
	skipLimit    = 256 << 10              // what is read of a body that nobody wants
	lingerTime   = 500 * time.Millisecond // for how long bytes are dropped after the last response
	batch        = 128                    // requests that are answered before others have a turn
	highWater    = 64 << 10               // what waits to be sent while a handler may write on
)

// ConnectionMade is the beginning.
func (c *conn) ConnectionMade(tc *transport.Conn) {
	c.tc = tc
	c.st = c.st.sv.perLoop.Of(tc.Loop().Internal())
	if c.st.draining {
		tc.Close()
		return
	}
	c.tls = tc.TLS()
	c.st.heads.add(c)
	if h := c.st.observer; h != nil {
		h.made(c)
	}
}

// DataReceived parses what has come, or keeps it for later.
func (c *conn) DataReceived(_ *transport.Conn, data []byte) {
	switch {
	case c.is(lingers): // dropped
	case c.wants():
		c.consume(data)
	default:
		c.keep(data)
	}
}

// wants tells whether the next bytes are to be parsed now.
func (c *conn) wants() bool {
	if c.is(lingers | switching | yielding | gone) {
		return false
	}
	if c.x != nil {
		return !c.x.complete
	}
	return !c.is(writesPaused)
}

// consume parses data up to where it ends, or to where a request is complete that
// is not answered at once.
func (c *conn) consume(data []byte) {
	st := c.st
	if st.observer != nil && len(data) > 0 {
		st.observer.moved(c, http.StateActive)
	}
	p := c.takeParser()
	c.flags |= consuming
	defer c.caught()
	answered := 0
	for c.wants() {
		n, event, err := p.Parse(data)
		if err != nil {
			p.Reset()
			c.refuse(err)
			data = nil
			break
		}
		data = data[n:]
		switch event {
		case http1.Head:
			c.head(p)
		case http1.Data:
			c.piece(p.Data())
		case http1.End:
			st.rest = data
			c.end(p)
			data, st.rest = st.rest, nil
			if answered++; answered == batch && len(data) > 0 {
				c.yield()
			}
		}
		if event == http1.More {
			break
		}
	}
	if p.Idle() {
		st.giveParser(p)
	} else {
		c.extra().parser = p // before the handler starts: Hijack needs it
	}
	if x := c.x; x != nil && !x.started {
		x.start()
	}
	c.flags &^= consuming
	if c.is(lingers | gone) {
		c.dropParser()
	}
	if len(data) > 0 && !c.is(lingers|gone) {
		c.keep(data)
	}
	if len(st.out) > 0 {
		c.flushLean()
	}
	if c.x == nil && !c.hasPending() && !c.is(lingers|switching|gone) {
		c.readOn() // an inline handler has left a body that had come faster than it is read
	}
	c.settle()
}

// within tells whether some of a message has come, and not all.
func (c *conn) within() bool { return c.more != nil && c.more.parser != nil }

// takeParser is the parser to go on with.
func (c *conn) takeParser() *http1.RequestParser {
	if !c.within() {
		return c.st.takeParser()
	}
	p := c.more.parser
	c.more.parser = nil
	return p
}

// dropParser gives up the message that has come in part, if there is one.
func (c *conn) dropParser() {
	if c.within() {
		p := c.takeParser()
		p.Reset()
		c.st.giveParser(p)
	}
}

// caught is for a lean handler that has panicked. The parser it was lent is left to the
// garbage collector.
func (c *conn) caught() {
	if !c.is(consuming) {
		return
	}
	c.flags &^= consuming
	c.st.out = c.st.out[:0]
	v := recover()
	c.st.sv.logPanic(v, c.remoteAddr())
	c.hangUp()
}

// settle puts the connection where it waits for what comes next, in the queue with the
// right time-out.
func (c *conn) settle() {
	st := c.st
	switch {
	case c.is(lingers | gone | switching):
	case c.is(ended) && !c.hasPending():
		c.settleEnded()
	case c.x != nil && c.x.complete, c.is(writesPaused | yielding):
		c.leave()
	case c.x != nil || c.is(skipping|collecting):
		if c.in != &st.bodies {
			st.bodies.add(c)
		}
	case c.within():
		if c.in != &st.heads {
			st.heads.add(c)
		}
	case st.closesIdle:
		c.hangUp()
	default:
		c.more = nil
		st.idle.add(c)
		if st.observer != nil {
			st.observer.moved(c, http.StateIdle)
		}
	}
}

// settleEnded is settle once the peer has closed its sending side and everything that it
// sent was parsed: what has come only in part will never be complete.
func (c *conn) settleEnded() {
	switch x := c.x; {
	case x != nil:
		c.leave()
		if !x.complete {
			x.closes = true
			x.body.fail(io.ErrUnexpectedEOF)
		}
		x.cancel(ErrClientGone)
	case c.within() && !c.is(skipping|collecting):
		c.answerError(http1.ErrUnexpectedEOF.Status, http1.ErrUnexpectedEOF) // of a head
	default:
		c.hangUp()
	}
}

// yield lets others have a turn: a client that sends very many requests at once must
// not keep the loop for itself.
func (c *conn) yield() {
	c.flags |= yielding
	c.st.l.Internal().CallSoon(loopcore.DropAtClose, func() {
		c.flags &^= yielding
		if c.x == nil && !c.is(lingers|switching|gone|writesPaused) {
			c.proceed()
		}
	})
}

// head is a request's beginning.
func (c *conn) head(p *http1.RequestParser) {
	c.requests++
	if lean := c.st.sv.server.Lean; lean != nil && c.answersLean(lean, p) {
		return
	}
	x, ok := newExchange(c, p)
	if !ok {
		c.refuse(http1.ErrTarget)
		return
	}
	c.x = x
}

// piece is some of the body.
func (c *conn) piece(data []byte) {
	switch {
	case c.x != nil:
		if c.x.body.push(data) && !c.is(readsPaused) {
			c.flags |= readsPaused
			c.tc.PauseReading()
		}
	case c.is(collecting):
		c.collect(data)
	default:
		if m := c.extra(); m.dropped+int64(len(data)) > skipLimit {
			c.close()
		} else {
			m.dropped += int64(len(data))
		}
	}
}

// end is the end of a request.
func (c *conn) end(p *http1.RequestParser) {
	if x := c.x; x != nil {
		x.complete = true
		x.body.end(p)
		if !x.started {
			x.start()
		}
		return
	}
	if c.is(collecting) {
		c.collected(p)
	}
	c.flags &^= skipping
	if c.more != nil {
		c.more.dropped = 0
	}
	if c.is(closesNext) {
		c.close()
	}
}

// keep is for what comes while it cannot be parsed.
func (c *conn) keep(data []byte) {
	m := c.extra()
	if m.pending == nil {
		m.pending = c.st.takeBuffer()
	}
	m.pending = append(m.pending, data...)
	if len(m.pending) >= pendingLimit && !c.is(readsPaused) {
		c.flags |= readsPaused
		c.tc.PauseReading()
	}
}

func (c *conn) hasPending() bool { return c.more != nil && len(c.more.pending) > 0 }

// readOn ends a pause.
func (c *conn) readOn() {
	if c.is(readsPaused) {
		c.flags &^= readsPaused
		c.tc.ResumeReading()
	}
}

// answered goes on behind a request.
func (c *conn) answered(x *exchange) {
	c.x = nil
	switch {
	case c.is(gone | switching):
		return
	case x.closes || c.is(lingers):
		c.close()
		return
	case !x.complete:
		c.flags |= skipping
		c.extra().dropped = x.body.unread()
	}
	if !c.is(consuming) {
		c.proceed()
	}
}

// proceed parses what was kept.
func (c *conn) proceed() {
	var kept []byte
	if c.more != nil {
		kept, c.more.pending = c.more.pending, nil
	}
	c.readOn()
	c.consume(kept)
	if kept != nil {
		c.st.giveBuffer(kept)
	}
}
