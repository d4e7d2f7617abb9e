package web

import (
	"net/http"
	"testing"
	"time"

	"github.com/spindleloop/spindle/loop"
)

func init() { checkPhases = true }

// Yields reports whether the loop lets workers run at the end of its turn.
func Yields(sv *Service, l *loop.Loop) bool {
	st := sv.perLoop.Of(l)
	return st != nil && st.yields
}

// HasLoopState reports whether the service has state on a loop.
func HasLoopState(sv *Service, l *loop.Loop) bool { return sv.perLoop.Of(l) != nil }

// Abort ends the connection of a request, on its loop.
func Abort(w http.ResponseWriter) { responseOf(w).x.c.tc.Abort() }

// ErrMalformedResponse is the error of a response that a server must not send.
var ErrMalformedResponse = errMalformedResponse

// ErrTwoBodyReaders is the error of the second of two reads.
var ErrTwoBodyReaders = errTwoBodyReaders

// Linger makes servers that start during a test drop bytes after the last response for d,
// so that a busy machine does not reset a client that is slow to send.
func Linger(t *testing.T, d time.Duration) {
	before := lingerTime
	lingerTime = d
	t.Cleanup(func() { lingerTime = before })
}

// BodyBuffers returns the sizes of the buffers of a request's and a response's body that are read as
// quickly as they come, but never to the last byte that has come.
func BodyBuffers(pieces int) (request, response int) {
	req, res := &body{}, &h2Body{}
	piece, into := make([]byte, 1000), make([]byte, 1000)
	for i := range pieces {
		req.push(piece)
		res.push(piece)
		if i > 0 {
			req.take(into)
			res.take(into)
		}
	}
	return cap(req.buf), cap(res.buf)
}

// ReceiveBody receives a request's body in pieces. It returns what Hijack would take over.
func ReceiveBody(pieces ...[]byte) (rest []byte) {
	b := &body{}
	for _, piece := range pieces {
		b.push(piece)
	}
	return b.surrender(nil)
}
