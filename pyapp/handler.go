package pyapp

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/spindleloop/spindle"
)

// ServeHTTP answers the request with the app; see the package comment. The first request
// starts the workers unless Start did.
func (a *App) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a.Target == "" {
		panic("pyapp: ServeHTTP of an App without a Target")
	}
	if spindle.Current(r.Context()) != nil {
		panic("pyapp: an App serves on goroutines and would block the loop; do not mark it with web.Inline")
	}
	x := exchange{app: a, w: w, r: r}
	for range maxAttempts {
		to, err := a.acquire(r.Context()) // not a worker that has just ended: run suspects it
		if err != nil {
			a.refuse(w, r, err)
			return
		}
		x.worker, x.released = to, false
		if again := x.run(); !again {
			return
		}
	}
	a.refuse(w, r, ErrUnavailable)
}

// maxAttempts is how many workers may break the connection to a request before anything of
// it was sent.
const maxAttempts = 10

// refuse answers a request that no worker takes.
func (a *App) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, ErrUnavailable) || errors.Is(err, errClosed) {
		w.Header().Set("Retry-After", strconv.Itoa(1))
		http.Error(w, http.StatusText(http.StatusServiceUnavailable), http.StatusServiceUnavailable)
		return
	}
	fail(w, r)
}

// fail answers a request that a worker did not answer. A client that has disconnected gets
// no answer, and the server is told so.
func fail(w http.ResponseWriter, r *http.Request) {
	code := http.StatusBadGateway
	switch r.Context().Err() {
	case context.Canceled:
		panic(http.ErrAbortHandler)
	case context.DeadlineExceeded:
		code = http.StatusGatewayTimeout
	}
	http.Error(w, http.StatusText(code), code)
}

// failBody answers a request with a body that could not be read.
func failBody(w http.ResponseWriter, r *http.Request, err error) {
	if errors.As(err, new(*http.MaxBytesError)) {
		http.Error(w, http.StatusText(http.StatusRequestEntityTooLarge), http.StatusRequestEntityTooLarge)
		return
	}
	if r.Context().Err() == nil {
		http.Error(w, http.StatusText(http.StatusBadRequest), http.StatusBadRequest)
		return
	}
	fail(w, r)
}
