package web

import (
	"crypto/tls"
	"net/http"
	"time"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/http1"
	"github.com/spindleloop/spindle/transport"
)

// conn is an HTTP connection: the protocol of a transport's connection. It cuts received
// bytes into requests and answers them one after the other. Bytes that follow the request
// being answered are kept unparsed, up to a limit. Its states are drawn in conn_phase.go.
// Loop goroutine only.
//
// An idle connection has nothing else than this struct of 80 bytes.
type conn struct {
	tc    *transport.Conn
	st    *loopState
	x     *exchange // the request that is being answered
	extra *connExtra

	in         *timeoutList // what it waits for, and since when
	since      time.Duration
	prev, next *conn

	tls      *tls.ConnectionState // nil without TLS
	requests uint32               // how many have come
	phase    connPhase
	input    inputPhase
	output   outputPhase
	marks    connMarks
}

// connExtra is what a connection needs only at times: while a message has come in part,
// while requests wait behind another one, or while the peer does not read.
type connExtra struct {
	parser   *http1.RequestParser // of the message that has come in part
	kept     []byte               // received, to be parsed later
	skipped  int64                // bytes of the body in inputSkip
	writers  []func(error)        // called when output is not held any more
	lean     *leanBody            // of inputCollect
	deferral *deferral            // the request that is being answered, if it is deferred
	h2       *h2Conn              // of an HTTP/2 connection, while it lasts
}

func (c *conn) ensureExtra() *connExtra {
	if c.extra == nil {
		c.extra = &connExtra{}
	}
	return c.extra
}

const (
	keepLimit = 16 << 10  // how many bytes are kept before reading pauses
	skipLimit = 256 << 10 // how much of an unwanted body is read
	batch     = 128       // requests answered at once before others have a turn
	highWater = 64 << 10  // unsent bytes above which handlers wait
)

// ConnectionMade registers the connection with its loop's state.
func (c *conn) ConnectionMade(tc *transport.Conn) {
	c.tc = tc
	c.st = c.st.sv.perLoop.Of(tc.Loop())
	c.tls = tc.TLS()
	switch {
	case c.st.mode != modeDraining:
		c.st.heads.add(c)
	case !c.st.closesIdle(): // accepted before the drain; notifyDrain may have missed it
		c.marks |= drainSeen
		c.st.idle.add(c)
	default:
		c.enter(connClosing)
		tc.Close()
		return
	}
	if o := c.st.observer; o != nil {
		o.made(c)
	}
	if c.tls != nil || c.st.sv.protocols.UnencryptedHTTP2() {
		c.chooseProtocol(c.tls)
	}
}

// DataReceived parses data, or keeps it for later.
func (c *conn) DataReceived(_ *transport.Conn, data []byte) {
	switch {
	case c.phase == connLingering || c.phase == connClosing:
		if h := c.h2(); h != nil {
			h.drop(data)
		}
	case c.parses():
		c.consume(data)
	case c.input == inputFrames:
		c.extra.h2.dataReceived(data)
	case c.input == inputPreface:
		c.sniff(data)
	default:
		c.keep(data)
	}
}

// parses reports whether received bytes are parsed now.
func (c *conn) parses() bool {
	if c.phase != connOpen {
		return false
	}
	switch c.input {
	case inputBody:
		return true
	case inputHead, inputCollect, inputSkip, inputSkipLast:
		return c.output != outputHeld
	}
	return false
}

// consume parses data up to its end, or to the end of a request that is not answered at
// once. It starts the handlers of the requests.
func (c *conn) consume(data []byte) {
	st := c.st
	if st.observer != nil && len(data) > 0 {
		st.observer.moved(c, http.StateActive)
	}
	p := c.takeParser()
	c.marks |= parsing
	defer c.recoverLean()
	var begun *exchange // has a head, and no handler yet
	requests := 0
	for c.parses() {
		n, event, err := p.Parse(data)
		if err != nil {
			c.refuse(p, err)
			p.Reset()
			data = nil
			break
		}
		data = data[n:]
		if event == http1.More {
			break
		}
		switch event {
		case http1.Head:
			begun = c.head(p)
		case http1.Data:
			c.piece(p.Data())
		case http1.End:
			st.rest = data // Hijack takes it
			if c.end(p); begun != nil {
				begun.start()
				begun = nil
			}
			data, st.rest = st.rest, nil
			if requests++; requests == batch && len(data) > 0 && c.input == inputHead {
				c.yield()
			}
		}
	}
	if p.Idle() {
		st.giveParser(p)
	} else {
		c.ensureExtra().parser = p // before the handler starts: Hijack takes it
	}
	if begun != nil {
		begun.start()
	}
	c.marks &^= parsing
	c.consumed(data)
}

// consumed ends consume: it keeps the rest, sends what lean handlers have answered, and
// makes the connection wait for what comes next.
func (c *conn) consumed(rest []byte) {
	switch c.phase {
	case connLingering, connClosing, connLost:
		c.dropParser()
	default:
		if len(rest) > 0 {
			c.keep(rest)
		}
	}
	if len(c.st.out) > 0 {
		c.flushLean()
	}
	if !c.answering() && !c.hasKept() && c.phase == connOpen {
		c.resumeReading() // an inline handler may have left a body that came faster than it was read
	}
	c.settle()
}

// partial reports whether a message has come in part.
func (c *conn) partial() bool { return c.extra != nil && c.extra.parser != nil }

// takeParser returns the parser to continue with.
func (c *conn) takeParser() *http1.RequestParser {
	if !c.partial() {
		return c.st.takeParser()
	}
	p := c.extra.parser
	c.extra.parser = nil
	return p
}

// dropParser gives up a message that has come in part.
func (c *conn) dropParser() {
	if c.partial() {
		p := c.takeParser()
		p.Reset()
		c.st.giveParser(p)
	}
}

// recoverLean is deferred by consume. It ends the connection if a lean handler panicked.
// The parser that the handler was lent is left to the garbage collector.
func (c *conn) recoverLean() {
	if !c.is(parsing) {
		return
	}
	c.marks &^= parsing
	c.st.sv.logPanic(recover(), c.remoteAddr())
	c.close() // after the answers to the requests before
}

// settle makes the connection wait for what comes next, with the time-out for that.
func (c *conn) settle() {
	st := c.st
	if checkPhases && c.phase == connOpen && !c.consistent() {
		panic("web: internal error: a connection's exchange and input do not agree")
	}
	switch {
	case c.phase != connOpen:
	case c.is(peerEOF) && !c.hasKept():
		c.settleEOF()
	case c.output == outputHeld:
		c.leave()
	case c.input == inputHead && c.partial():
		if c.in != &st.heads {
			st.heads.add(c)
		}
	case c.input == inputHead && st.closesIdle():
		c.close() // the response before may not have arrived yet
	case c.input == inputHead: // while draining: the response was begun before, and has not announced the close
		c.extra = nil
		st.idle.add(c)
		if st.observer != nil {
			st.observer.moved(c, http.StateIdle)
		}
	case c.input == inputBody, c.input == inputCollect, c.input == inputSkip, c.input == inputSkipLast:
		if c.in != &st.bodies {
			st.bodies.add(c)
		}
	default: // the handler, or the next turn
		c.leave()
	}
}

// settleEOF is settle when the peer has closed its sending side and everything before
// that was parsed. A message that has come in part will never be complete.
func (c *conn) settleEOF() {
	switch {
	case c.answering():
		c.cutOff()
	case c.partial() && c.input == inputHead:
		c.answerError(c.extra.parser, http1.ErrUnexpectedEOF.Status, http1.ErrUnexpectedEOF)
	default:
		c.hangUp()
	}
}

// yield parses the kept requests in the next turn, so that a client that sends very many
// at once does not occupy the loop.
func (c *conn) yield() {
	c.expect(inputYield)
	c.st.l.Internal().CallSoon(atclose.Drop, func() {
		if c.input != inputYield {
			return
		}
		c.expect(inputHead)
		c.proceed()
	})
}

// head handles a request's head. It returns the exchange, for the caller to start, or nil if
// the request is lean or was refused.
func (c *conn) head(p *http1.RequestParser) *exchange {
	c.requests++
	if lean := c.st.sv.server.Lean; lean != nil && c.answersLean(lean, p) {
		return nil
	}
	x, ok := newExchange(c, p)
	if !ok {
		c.refuse(p, http1.ErrTarget)
		return nil
	}
	c.expect(inputBody)
	c.x = x
	return x
}

// reachedLimit reports whether the connection takes no more requests.
func (c *conn) reachedLimit() bool {
	limit := c.st.sv.server.MaxRequestsPerConn
	return limit > 0 && int(c.requests) >= limit
}

// piece handles a part of a request's body.
func (c *conn) piece(data []byte) {
	switch c.input {
	case inputBody:
		full := false
		if d := c.deferral(); d != nil {
			full = d.data(data)
		} else {
			full = c.x.body.push(data)
		}
		if full {
			c.pauseReading()
		}
	case inputCollect:
		c.collect(data)
	default:
		if e := c.ensureExtra(); e.skipped+int64(len(data)) > skipLimit {
			c.close()
		} else {
			e.skipped += int64(len(data))
		}
	}
}

// end handles the end of a request.
func (c *conn) end(p *http1.RequestParser) {
	switch c.input {
	case inputBody:
		c.expect(inputHold)
		if d := c.deferral(); d != nil {
			d.h.End()
		} else {
			c.x.body.end(p)
		}
		c.resumeReading() // or the client's leaving would not be noticed
	case inputCollect:
		closes := c.collected(p)
		c.expect(inputHead)
		if closes {
			c.close()
		}
	case inputSkip:
		c.expect(inputHead)
		if c.extra != nil {
			c.extra.skipped = 0
		}
	case inputSkipLast:
		c.close()
	}
}

// answered continues after the answer to a request; b is the request's body, nil if the
// request is deferred or has none.
func (c *conn) answered(b *body) {
	switch c.input {
	case inputHold:
		c.expect(inputHead)
	case inputBody:
		c.expect(inputSkip)
		if b != nil {
			c.ensureExtra().skipped = b.unreadBytes()
		}
	default:
		c.close()
		return
	}
	if !c.is(parsing) {
		c.proceed()
	}
}

// proceed parses the kept bytes, unless it is too early for that.
func (c *conn) proceed() {
	switch {
	case c.phase != connOpen || c.answering() || c.input == inputYield:
		return
	case c.input == inputFrames:
		c.extra.h2.resume()
		return
	case c.output == outputHeld:
		c.settle()
		return
	}
	var kept []byte
	if c.extra != nil {
		kept, c.extra.kept = c.extra.kept, nil
	}
	c.resumeReading()
	c.consume(kept)
	if kept != nil {
		c.st.giveBuffer(kept)
	}
}
