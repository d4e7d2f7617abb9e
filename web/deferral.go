package web

import (
	"context"
	"io"
	"os"

	"github.com/spindleloop/spindle/internal/deferred"
	"github.com/spindleloop/spindle/internal/http1"
)

// deferral is a request that is answered after its lean handler has returned. For the
// connection it takes the place of an exchange. Loop goroutine only.
type deferral struct {
	c      *conn
	h      deferred.Handler
	awaits bool // the client waits for a 100 before it sends the body
	gone   bool // the handler knows that the client has disconnected
}

// Defer is used by Spindle's own packages to answer a request after the lean handler has
// returned true. If the handler returns false, the answer must not be used. Defer is not
// for other code: its types are internal and may change in any version.
func (lc *LeanCtx) Defer(h deferred.Handler) deferred.Answer {
	if lc.s != nil {
		return lc.deferStream(h)
	}
	d := &deferral{c: lc.c, h: h, awaits: lc.p.ExpectsContinue()}
	lc.c.ensureExtra().deferral = d
	return d
}

// deferral returns the deferred request that is being answered, nil if there is none.
func (c *conn) deferral() *deferral {
	if c.extra == nil {
		return nil
	}
	return c.extra.deferral
}

// answering reports whether a request is being answered.
func (c *conn) answering() bool { return c.x != nil || c.deferral() != nil }

// failBody makes reads of the body fail, on the loop.
func (c *conn) failBody(err error) {
	if d := c.deferral(); d != nil {
		d.h.Failed(err)
	} else {
		c.x.body.fail(err)
	}
}

// cancelRequest ends the context of the request that is being answered.
func (c *conn) cancelRequest(cause error) {
	d := c.deferral()
	switch {
	case d == nil:
		c.x.cancel(cause)
	case !d.gone:
		d.gone = true
		d.h.Gone(cause)
	}
}

func (d *deferral) Head() *http1.RequestParser { return d.c.st.lean.p }

func (d *deferral) Remote() string { return d.c.remoteAddr() }

func (d *deferral) Pass(value any) { d.c.st.lean.passed = value }

func (d *deferral) Persists() bool {
	return !d.c.reachedLimit() && !d.c.st.sv.closesConns()
}

func (d *deferral) Continue() {
	if d.c.phase == connOpen && d.c.input == inputBody {
		d.c.tc.Write([]byte(http1.Continue))
		d.awaits = false
		d.restartBodyTimeout()
	}
}

func (d *deferral) Resume() {
	if d.c.phase == connOpen && d.c.input == inputBody {
		d.c.resumeReading()
		d.restartBodyTimeout()
	}
}

// data passes a piece of the body on. It reports whether reading should pause.
func (d *deferral) data(p []byte) (full bool) {
	d.restartBodyTimeout()
	return d.h.Data(p)
}

// restartBodyTimeout gives the client the whole time for the next piece of the body.
func (d *deferral) restartBodyTimeout() {
	if d.c.in == &d.c.st.bodies {
		d.c.st.bodies.add(d.c)
	}
}

func (d *deferral) Write(pieces ...[]byte) (held bool) {
	c := d.c
	if c.phase != connOpen {
		return false
	}
	if len(pieces) == 1 {
		c.tc.Write(pieces[0])
	} else {
		c.tc.Writev(pieces)
	}
	if c.tc.Unsent() <= highWater && c.output != outputHeld {
		return false
	}
	c.afterWrites(func(err error) {
		if err == nil && held && c.deferral() == d {
			d.h.Writable()
		}
	})
	held = c.output == outputHeld
	return held
}

func (d *deferral) SendFile(f *os.File, offset, n int64, done func(error)) {
	if d.c.phase != connOpen {
		done(d.c.cause())
		return
	}
	d.c.timeWrites()
	d.c.tc.SendFile(f, offset, n, done)
}

func (d *deferral) Finish(closes bool) {
	c := d.c
	if c.phase != connOpen {
		return
	}
	c.extra.deferral = nil
	if closes {
		c.close()
		return
	}
	c.answered(nil)
}

func (d *deferral) Abort() {
	if c := d.c; c.phase == connOpen {
		c.extra.deferral = nil
		c.hangUp()
	}
}

// takePassed adds the value of Answer.Pass to the request's context.
func (x *exchange) takePassed() {
	lc := &x.st.lean
	if lc.passed == nil {
		return
	}
	if x.ctx.base == nil {
		x.ctx.base = context.Background()
	}
	x.ctx.base = context.WithValue(x.ctx.base, deferred.Passed, lc.passed)
	lc.passed = nil
}

// cutOff is settleEOF for a request that is being answered.
func (c *conn) cutOff() {
	c.leave()
	if c.input == inputBody {
		c.expect(inputBroken)
		c.failBody(io.ErrUnexpectedEOF)
	}
	c.cancelRequest(ErrClientGone)
}
