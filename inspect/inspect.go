// Package inspect shows what the loops of a running program do: which tasks exist, what
// each of them waits for and since when, which callback blocks a loop and where, what the
// sockets hold.
//
//	s, err := inspect.Serve("127.0.0.1:6061", inspect.Options{})
//
// serves a page, a JSON API and metrics on a loop of its own, so that it answers while the
// program's loops are blocked. Handler returns the same as an http.Handler, to mount beside
// pprof on Spindle's web or on net/http. Both find all loops of the process by themselves;
// loop.Options.Name names them.
//
// # Paths
//
//	/                  the page
//	/api/v1/loops      loops: state, rates, lag, queues; the stack of one that is blocked
//	/api/v1/tasks      tasks, filtered, sorted and paged; sort=tree for the tree
//	/api/v1/stack      the stack of one task
//	/api/v1/waits      what waits for what, with cycles marked
//	/api/v1/sockets    connections and listeners
//	/api/v1/requests   HTTP requests under way
//	/api/v1/sync       locks, queues and other objects with their waiters
//	/api/v1/ended      the last tasks that have ended, with their outcome
//	/api/v1/blocked    the last callbacks that blocked a loop, with their stack
//	/api/v1/snapshot   all of these
//	/api/v1/events     live, as server-sent events
//	/api/v1/calls      calls of package relay that wait for their reply
//	/api/v1/history    the moments of a recording
//	/api/v1/messages   what the hosts of a simulated world sent to each other
//	/metrics           for Prometheus
//
// docs/design/023-inspect.md explains each field.
//
// # What it costs
//
// A handler that is mounted and not asked costs a test of a nil pointer at each switch of
// tasks, and the few counters that loops keep in any case. Accounting of tasks (busy, ready
// and waiting time, switches, where they were started, ended tasks) begins with the first
// request and ends half a minute after the last one. A snapshot of tasks holds a loop for
// at most a millisecond at a time.
//
// # Access
//
// Requests must come from the same machine and must name it by a loopback address or
// "localhost", unless Options say otherwise. Requests that a page of another origin makes
// are refused. Answers never contain bytes that connections carry.
package inspect

import (
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/inspectapi"
)

// Options configure a handler. The zero value is the safest.
type Options struct {
	// Token is the bearer token that requests to the API must have, in the header
	// Authorization. "" means none is needed.
	Token string

	// AllowRemote allows requests from other machines, and those that a proxy has
	// forwarded. It needs a Token.
	//
	// Behind a proxy, set a Token. Requests with a header that proxies add (Forwarded,
	// X-Forwarded-For, X-Real-Ip) are refused without AllowRemote, but a proxy on the same
	// machine that adds none of them looks like a program there.
	AllowRemote bool

	// Hosts are names that requests may have in the header Host, without a port,
	// besides loopback addresses and "localhost". "*" allows all, and gives up the
	// protection against DNS rebinding.
	Hosts []string

	// AllowActions allows requests that change the program: cancel a task or a scope, close a
	// connection, record a profile or a trace.
	AllowActions bool

	// Recording is shown instead of the loops of the process, if it is not nil. Then there
	// are no events, actions, stacks or metrics.
	Recording *Recording
}

// Handler returns a handler for the page, the API and the metrics. It can be mounted at any
// path that ends with a slash:
//
//	mux.Handle("/debug/spindle/", inspect.Handler(inspect.Options{}))
//
// Behind a proxy, set a Token. Handler panics if AllowRemote is set without a Token, and if
// there is a Recording without snapshots.
func Handler(o Options) http.Handler {
	if o.Recording != nil && len(o.Recording.Snapshots) == 0 {
		panic("inspect: Options.Recording has no snapshots")
	}
	if o.AllowRemote && o.Token == "" {
		panic("inspect: Options.AllowRemote needs a Token")
	}
	return &handler{Options: o, token: sha256.Sum256([]byte(o.Token))}
}

// handler serves the page and the API.
type handler struct {
	Options
	token [sha256.Size]byte
}

// endpoint collects an answer. It may block.
type endpoint func(h *handler, q *query) (any, error)

var endpoints = map[string]endpoint{
	"loops":    (*handler).loops,
	"tasks":    (*handler).tasks,
	"sockets":  (*handler).sockets,
	"requests": (*handler).requests,
	"ended":    (*handler).ended,
	"blocked":  (*handler).blocked,
	"waits":    (*handler).waits,
	"sync":     (*handler).sync,
	"calls":    (*handler).calls,
	"snapshot": (*handler).snapshot,
	"stack":    (*handler).stackOf,
}

// ServeHTTP answers a request.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	harden(w.Header())
	showItself(w, r)
	if status, why := h.refuse(r); status != 0 {
		fail(w, status, why)
		return
	}
	at := strings.LastIndex(r.URL.Path, "/api/v1/")
	switch {
	case at >= 0:
		h.serveAPI(w, r, r.URL.Path[at+len("/api/v1/"):])
	case strings.HasSuffix(r.URL.Path, "/metrics") && isRead(r) && h.Recording == nil:
		h.serveMetrics(w, r)
	case strings.HasSuffix(r.URL.Path, "/") && isRead(r):
		h.servePage(w, r)
	default:
		fail(w, http.StatusNotFound, "no such page")
	}
}

func isRead(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

func (h *handler) serveAPI(w http.ResponseWriter, r *http.Request, name string) {
	if !h.authorized(r) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="spindle"`)
		fail(w, http.StatusUnauthorized, "the bearer token is missing or wrong")
		return
	}
	endpoint := endpoints[name]
	switch act := actions[name]; {
	case h.Recording != nil:
		endpoint = recordedEndpoints[name]
	case act != nil:
		h.serveAction(w, r, act)
		return
	case name == "events" && r.Method == http.MethodGet:
		h.serveEvents(w, r)
		return
	}
	if endpoint == nil {
		fail(w, http.StatusNotFound, "no such part of the API")
		return
	}
	if !isRead(r) {
		w.Header().Set("Allow", "GET, HEAD")
		fail(w, http.StatusMethodNotAllowed, "use GET")
		return
	}
	q, err := parseQuery(r.URL.Query())
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	if h.Recording == nil {
		h.attachTasks()
	}
	answer, err := offLoop(r, func() (any, error) { return endpoint(h, q) })
	switch {
	case err == errNoTask || err == errNoStack:
		fail(w, http.StatusNotFound, err.Error())
		return
	case err != nil:
		fail(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	respond(w, http.StatusOK, answer)
}

// offLoop calls fn, which may block. If the handler runs in a task, fn runs on a worker
// goroutine.
func offLoop[T any](r *http.Request, fn func() (T, error)) (T, error) {
	if spindle.Current(r.Context()) != nil {
		return spindle.Blocking(r.Context(), fn)
	}
	return fn()
}

// respond writes an answer.
func respond(w http.ResponseWriter, status int, answer any) {
	text, err := json.Marshal(answer)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"version":1,"error":"the answer cannot be encoded"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n'))
}

// fail answers that a request failed.
func fail(w http.ResponseWriter, status int, why string) {
	respond(w, status, inspectapi.ErrorAnswer{Version: inspectapi.Version, Error: "inspect: " + why})
}
