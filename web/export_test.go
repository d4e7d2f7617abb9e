package web

import (
	"net/http"

	"github.com/spindleloop/spindle/loop"
)

// Yields tells whether workers are to be let run at the end of the loop's turn.
func Yields(sv *Service, l *loop.Loop) bool {
	st := sv.perLoop.Of(l.Internal())
	return st != nil && st.yields
}

// Abort ends the connection of a request, on its loop.
func Abort(w http.ResponseWriter) { own(w).x.c.tc.Abort() }

// ErrTwoBodyReaders is what the second of two reads gets.
var ErrTwoBodyReaders = errTwoBodyReaders
