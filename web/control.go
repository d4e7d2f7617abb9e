package web

import (
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

// abort ends the connection because the response took too long.
func (x *exchange) abort() {
	x.cancel(ErrTimeout)
	x.body.fail(os.ErrDeadlineExceeded)
	x.c.hasRoom(os.ErrDeadlineExceeded)
	x.c.tc.Abort()
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
		if x.c.is(gone) {
			return x.c.cause()
		}
		which(x.controls()).set(x.st.l, t)
		return nil
	})
}

// EnableFullDuplex is for http.ResponseController; bodies can always be read while
// the response is written.
func (w *response) EnableFullDuplex() error { return nil }
