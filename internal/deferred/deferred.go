// Package deferred has the types of a request that is answered after its lean handler has
// returned. Package web implements Answer; the server of the Python package implements
// Handler.
//
// The handler's side frames a response of HTTP/1.1: it writes the bytes of the head and the
// body. On a stream of HTTP/2 it passes header blocks and the body. Everything here belongs to
// the loop of the connection.
package deferred

import (
	"os"

	"github.com/spindleloop/spindle/internal/http1"
	"github.com/spindleloop/spindle/internal/http2"
)

// Passed is the key of the value of Answer.Pass in the context of a request.
var Passed = passed{}

type passed struct{}

// Handler receives what becomes of a request while it is answered. Its methods must not
// call those of the Answer.
type Handler interface {
	// Data passes a piece of the body, which is valid during the call. It reports
	// whether reading should pause until Answer.Resume. The server's BodyTimeout is the
	// time between two pieces.
	Data(p []byte) (full bool)
	// End is called when the whole request has come.
	End()
	// Failed is called if the rest of the body will never come.
	Failed(err error)
	// Gone is called once if the request is given up: the client has disconnected, closed
	// its sending side, or took too long. The client may still read the response.
	Gone(cause error)
	// Lost is called when the connection has ended: nothing more can be sent.
	Lost()
	// Writable is called when the client has caught up, after a Write that reported
	// true.
	Writable()
}

// Answer answers a request. Nothing may be called after Finish or Abort.
type Answer interface {
	// Head returns the parser with the request's head, nil on a stream. It is valid only until
	// the lean handler returns.
	Head() *http1.RequestParser
	// Remote returns the client's address.
	Remote() string
	// Pass passes a value to the server's Handler with the request, if the lean handler returns
	// false.
	Pass(value any)
	// Persists reports whether the connection can serve another request.
	Persists() bool
	// Continue sends a 100 response.
	Continue()
	// Resume reads the rest of the body after Data returned true.
	Resume()
	// Write sends pieces of the response, which the caller may reuse when Write returns.
	// It reports whether the handler should wait for Writable.
	Write(pieces ...[]byte) (held bool)
	// SendFile sends a file and calls done, which may close it.
	SendFile(f *os.File, offset, n int64, done func(error))
	// Finish ends the answer. closes says that the head announced the connection's end.
	Finish(closes bool)
	// Abort ends the connection, because the answer cannot be completed.
	Abort()
}

// Stream is the Answer of a request on a stream of HTTP/2. Its Write and Finish send only the
// body, Abort ends only the stream, and Data's result is ignored: see Consumed.
type Stream interface {
	Answer
	// Header returns the request's header. It is valid only until the lean handler returns.
	Header() *http2.Header
	// Ends reports whether the request has no body, until the lean handler returns.
	Ends() bool
	// Consumed says that n bytes of the body were used, so that the client may send more.
	Consumed(n int)
	// Respond sends the header of the response, made of http2.AppendStatus and AppendField,
	// or that of an interim response. With end, the response has no body.
	Respond(block []byte, end bool)
	// Trail adds fields to the trailers, which Finish sends.
	Trail(block []byte)
	// FinishWith is Write and Finish.
	FinishWith(closes bool, pieces ...[]byte)
}
