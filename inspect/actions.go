package inspect

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spindleloop/spindle/internal/inspectapi"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/probe"
)

// actions are the parts of the API that change the program. They need AllowActions, the
// method POST, and a header that a form of another page cannot send.
var actions = map[string]func(*handler, http.ResponseWriter, *http.Request){
	"cancel":  (*handler).cancel,
	"close":   (*handler).closeSocket,
	"profile": (*handler).profile,
	"trace":   (*handler).trace,
}

// serveAction serves an action, if it is allowed.
func (h *handler) serveAction(w http.ResponseWriter, r *http.Request, act func(*handler, http.ResponseWriter, *http.Request)) {
	switch {
	case !h.AllowActions:
		fail(w, http.StatusForbidden, "actions are off; see Options.AllowActions")
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", "POST")
		fail(w, http.StatusMethodNotAllowed, "use POST")
	case r.Header.Get("Spindle-Action") != "yes":
		fail(w, http.StatusForbidden, "an action needs the header Spindle-Action: yes")
	default:
		act(h, w, r)
	}
}

var errNoAnswer = errors.New("the loop does not answer")

// acted answers an action. It has done nothing if done is "".
func (h *handler) acted(w http.ResponseWriter, done string, tasks int, err error) {
	switch {
	case err != nil:
		fail(w, http.StatusServiceUnavailable, err.Error())
	case done == "":
		fail(w, http.StatusNotFound, "there is no such object any more")
	default:
		respond(w, http.StatusOK, inspectapi.ActionAnswer{Version: inspectapi.Version, Done: done, Tasks: tasks})
	}
}

// closeSocket closes a connection.
func (h *handler) closeSocket(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("socket")
	loop, rest, _ := strings.Cut(id, ".f")
	token, err := strconv.ParseUint(rest, 16, 64)
	if err != nil {
		fail(w, http.StatusBadRequest, "close needs socket=ID")
		return
	}
	s := sourceByID(loop)
	if s == nil {
		h.acted(w, "", 0, nil)
		return
	}
	closed, err := offLoop(r, func() (bool, error) {
		expired, stop := after(snapshotWait)
		defer stop()
		found := false
		if !s.callOnLoop(expired, func() {
			if p, ok := s.l.Internal().WatcherAt(kernel.Token(token)).(probe.SocketWatcher); ok {
				found = true
				p.AbortSocket()
			}
		}) {
			return false, errNoAnswer
		}
		return found, nil
	})
	said := ""
	if closed {
		said = "closed " + id
	}
	h.acted(w, said, 0, err)
}

// profiling is whether a profile is recorded, so that all tasks are labelled.
var profiling atomic.Bool

// recording is held while a profile or a trace is recorded.
var recording sync.Mutex

// profile records a CPU profile. Tasks have the label "task" meanwhile.
func (h *handler) profile(w http.ResponseWriter, r *http.Request) {
	h.recordFor(w, r, "profile.pb.gz", func(b io.Writer) (func(), error) {
		return pprof.StopCPUProfile, pprof.StartCPUProfile(b)
	})
}

// trace records an execution trace.
func (h *handler) trace(w http.ResponseWriter, r *http.Request) {
	h.recordFor(w, r, "trace.out", func(b io.Writer) (func(), error) { return trace.Stop, trace.Start(b) })
}

// maxSeconds is how long a recording may take.
const maxSeconds = 60

// recordFor records for some seconds and answers with the file.
func (h *handler) recordFor(w http.ResponseWriter, r *http.Request, name string, start func(io.Writer) (stop func(), err error)) {
	seconds, err := number(r.URL.Query(), "seconds", 5, maxSeconds)
	if err != nil || seconds == 0 {
		fail(w, http.StatusBadRequest, fmt.Sprintf("seconds must be a number from 1 to %d", maxSeconds))
		return
	}
	if !recording.TryLock() {
		fail(w, http.StatusServiceUnavailable, "another recording is in progress")
		return
	}
	defer recording.Unlock()
	profiling.Store(true)
	defer profiling.Store(false) // the loops notice within a second
	h.attachTasks()
	for _, s := range openSources() {
		s.setAttached(true, s.counts())
	}
	_ = http.NewResponseController(w).SetWriteDeadline(wallTime().Add(2 * maxSeconds * time.Second))
	file := newRecording(recordingLimit)
	stop, err := start(file)
	if err != nil {
		fail(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	err = file.pause(r, time.Duration(seconds)*time.Second)
	stop()
	if err != nil {
		return // the client is gone
	}
	text, err := file.bytes()
	if err != nil {
		fail(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	_, _ = w.Write(text)
}

// sourceByID returns the loop with an id, nil if there is none.
func sourceByID(id string) *source {
	for _, s := range openSources() {
		if s.id == id {
			return s
		}
	}
	return nil
}
