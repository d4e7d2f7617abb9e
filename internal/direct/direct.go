// Package direct lets handlers of Spindle's own packages encode the fields of a response themselves, which saves
// the header map. Package web implements Response; web/webgrpc implements Handler.
package direct

import "net/http"

// Handler is an http.Handler. Package web calls ServeDirect instead of ServeHTTP for a request on a stream of
// HTTP/2 if there is no middleware, which might look at the header map afterwards.
type Handler interface {
	http.Handler
	ServeDirect(w Response, r *http.Request)
}

// Response is the http.ResponseWriter of ServeDirect.
type Response interface {
	http.ResponseWriter
	// Respond is WriteHeader with status 200. It sends these fields, made by http2.AppendField, and not those of Header.
	// One of them is a Content-Type.
	Respond(fields string)
	// Trail adds fields, made likewise, to the trailers.
	Trail(fields string)
}
