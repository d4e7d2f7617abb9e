package web

import (
	"math"
	"net/http"
	"os"
	"time"

	"github.com/spindleloop/spindle/internal/http2"
	"github.com/spindleloop/spindle/loop"
)

// deadlines are what http.ResponseController has set for a request. Loop goroutine only.
type deadlines struct {
	read, write deadline
	missed      bool // a write has missed its deadline; from then on all fail
}

// ensureDeadlines returns the request's deadlines, which it makes if necessary.
func (x *exchange) ensureDeadlines() *deadlines {
	if x.deadlines == nil {
		x.deadlines = &deadlines{read: deadline{expires: x.readExpired}, write: deadline{expires: x.writeExpired}}
	}
	return x.deadlines
}

// readExpired fails a Read that waits. If there is none, the next one that has to wait
// fails, unless the handler sets a later deadline first.
func (x *exchange) readExpired() {
	if x.body != nil && x.body.reader != nil {
		x.failRead()
	}
}

// failRead ends the body because reading it took too long.
func (x *exchange) failRead() {
	x.body.fail(os.ErrDeadlineExceeded)
	x.c.closeAfterAnswer()
}

// writeExpired ends the connection if the client has not taken what was written. If it
// has, the next write fails, unless the handler sets a later deadline first.
func (x *exchange) writeExpired() {
	if s := x.stream(); s != nil {
		if s.queued {
			x.abort()
		}
		return
	}
	if x.wire == wireFile || x.c.output == outputHeld || x.c.tc.Unsent() > 0 {
		x.abort()
	}
}

// cancel cancels the deadlines, if there are any.
func (d *deadlines) cancel() {
	if d != nil {
		d.read.timer.Cancel()
		d.write.timer.Cancel()
	}
}

// abort ends the connection because the response took too long. Calls that wait fail
// with the deadline, so they end before the context does: a task's wait would
// otherwise fail as cancelled.
func (x *exchange) abort() {
	x.deadlines.missed = true
	x.body.fail(os.ErrDeadlineExceeded)
	if s := x.stream(); s != nil {
		s.reset(http2.InternalError, os.ErrDeadlineExceeded)
		x.cancel(errTimeout)
		return
	}
	x.c.wakeWriters(os.ErrDeadlineExceeded)
	x.cancel(errTimeout)
	x.c.tc.Abort()
}

// lost returns why a write cannot be made, on the loop: the write deadline if that has
// passed, otherwise the end of the connection. It returns nil if the write can be made. A
// deadline that was missed once cannot be moved any more, and ends the request's context,
// as a failed write does in net/http.
func (x *exchange) lost() error {
	s := x.stream()
	switch {
	case x.deadlines.late(x.st.l):
		if !x.deadlines.missed {
			x.deadlines.missed = true
			x.cancel(errTimeout)
		}
		return os.ErrDeadlineExceeded
	case s != nil && s.Closed():
		return s.ended()
	case x.c.phase == connLost:
		return x.c.cause()
	}
	return nil
}

// late reports whether a write has missed its deadline, or would now.
func (d *deadlines) late(l *loop.Loop) bool { return d != nil && (d.missed || d.write.passed(l)) }

// SetReadDeadline makes Reads of the request's body fail that would wait at t or later,
// for http.ResponseController.
func (w *response) SetReadDeadline(t time.Time) error {
	return w.x.setDeadline(t, func(d *deadlines) *deadline { return &d.read })
}

// SetWriteDeadline makes writes fail that wait at t or come later, and then ends the
// connection, for http.ResponseController.
func (w *response) SetWriteDeadline(t time.Time) error {
	return w.x.setDeadline(t, func(d *deadlines) *deadline { return &d.write })
}

func (x *exchange) setDeadline(t time.Time, which func(*deadlines) *deadline) error {
	return x.st.do(func() error {
		switch {
		case x.w.closed():
			return errReturned
		case x.c.phase == connSwitched: // the connection has deadlines of its own
			return http.ErrHijacked
		case x.deadlines != nil && x.deadlines.missed:
			return nil // as with net/http, which cannot go on either
		case x.c.phase == connLost:
			return x.c.cause()
		}
		which(x.ensureDeadlines()).set(x.st.l, t)
		return nil
	})
}

// CloseNotify is for http.CloseNotifier, which some frameworks still use: the channel
// receives a value when the client disconnects. New code uses the request's context.
func (w *response) CloseNotify() <-chan bool { return w.x.ctx.closeNotify() }

// EnableFullDuplex is for http.ResponseController. Bodies can always be read while the
// response is written.
func (w *response) EnableFullDuplex() error {
	if w.closed() {
		return errReturned
	}
	return nil
}

// deadline is a point in time on a loop's clock. Loop goroutine only.
type deadline struct {
	at      time.Duration // 0 for none
	nth     uint64        // which call set it
	timer   loop.Timer
	expires func()
}

// set replaces the deadline by t; the zero Time means none. A time that has passed expires
// at once.
func (d *deadline) set(l *loop.Loop, t time.Time) {
	d.timer.Cancel()
	if d.at = 0; t.IsZero() {
		return
	}
	left := t.Sub(l.Internal().Kernel().Wall())
	if d.at = max(l.Time()+left, 1); left > 0 && d.at < left {
		d.at = math.MaxInt64
	}
	if left <= 0 {
		d.expires()
		return
	}
	d.timer = l.CallLater(left, d.expires)
}

func (d *deadline) passed(l *loop.Loop) bool { return d.at > 0 && l.Time() >= d.at }
