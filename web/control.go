package web

import (
	"net/http"
	"os"
	"time"
)

// control is what http.ResponseController has set for a request. Loop goroutine only.
type control struct{ read, write deadline }

// controls are the request's, made when first asked for.
func (x *exchange) controls() *control {
	if x.control == nil {
		x.control = &control{
			read:  deadline{expires: func() { x.body.fail(os.ErrDeadlineExceeded); x.closes = true }},
			write: deadline{expires: x.abort},
		}
	}
	return x.control
}

// cancel forgets the deadlines, if there are any.
func (c *control) cancel() {
	if c != nil {
		c.read.timer.Cancel()
		c.write.timer.Cancel()
	}
}

// abort ends the connection because the response took too long. Calls that wait fail
// with the deadline, so they end before the context does: a task's wait would
// otherwise fail as cancelled.
func (x *exchange) abort() {
	x.body.fail(os.ErrDeadlineExceeded)
	x.c.hasRoom(os.ErrDeadlineExceeded)
	x.cancel(ErrTimeout)
	x.c.tc.Abort()
}

// lost returns the error of a response that cannot be sent, on the loop: the write
// deadline if that has passed, otherwise the connection's.
func (x *exchange) lost() error {
	switch {
	case x.control != nil && x.control.write.passed(x.st.l):
		return os.ErrDeadlineExceeded
	case x.c.is(gone):
		return x.c.cause()
	}
	return nil
}

// SetReadDeadline has reading the request's body fail from t on, for
// http.ResponseController.
func (w *response) SetReadDeadline(t time.Time) error {
	return w.x.setDeadline(t, func(c *control) *deadline { return &c.read })
}

// SetWriteDeadline ends the connection if the response has not been written at t, for
// http.ResponseController.
func (w *response) SetWriteDeadline(t time.Time) error {
	return w.x.setDeadline(t, func(c *control) *deadline { return &c.write })
}

func (x *exchange) setDeadline(t time.Time, which func(*control) *deadline) error {
	return x.st.do(func() error {
		switch {
		case x.w.closed():
			return errReturned
		case x.c.is(switching): // the handler sets those of the connection it has taken
			return http.ErrHijacked
		}
		if err := x.lost(); err != nil {
			return err
		}
		which(x.controls()).set(x.st.l, t)
		return nil
	})
}

// CloseNotify is for http.CloseNotifier, which some frameworks still ask for: the
// channel gets a value when the client is gone. New code uses the request's context.
func (w *response) CloseNotify() <-chan bool { return w.x.ctx.notify() }

// EnableFullDuplex is for http.ResponseController; bodies can always be read while
// the response is written.
func (w *response) EnableFullDuplex() error {
	if w.closed() {
		return errReturned
	}
	return nil
}
