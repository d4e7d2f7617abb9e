package inspect

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/inspectapi"
	"github.com/spindleloop/spindle/internal/probe"
)

const (
	// eventEvery is the least time between two events of a client.
	eventEvery = 100 * time.Millisecond
	// maxStreams is how many clients may receive events at the same time.
	maxStreams = 32
	// writeWait is how long a client may take for an event.
	writeWait = 10 * time.Second
)

var streams atomic.Int32

// sharedLoops is the last loops answer. Clients that receive events share it, so that a
// loop is not asked more often if there are more of them.
var sharedLoops struct {
	mu    sync.Mutex
	at    time.Duration
	loops []inspectapi.Loop
}

func readSharedLoops() []inspectapi.Loop {
	s := &sharedLoops
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loops == nil || now()-s.at > eventEvery/2 {
		s.loops, s.at = readLoops(), now()
	}
	return s.loops
}

// serveEvents sends events until the client is gone. A client that does not read holds one
// event: the next one has the state of its time.
func (h *handler) serveEvents(w http.ResponseWriter, r *http.Request) {
	every, err := number(r.URL.Query(), "every", 1000, 10000)
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	if streams.Add(1) > maxStreams {
		streams.Add(-1)
		fail(w, http.StatusServiceUnavailable, fmt.Sprintf("%d clients receive events already", maxStreams))
		return
	}
	defer streams.Add(-1)
	w.Header().Set("Content-Type", "text/event-stream")
	s := &eventStream{h: h, w: w, r: r, control: http.NewResponseController(w)}
	s.every = max(time.Duration(every)*time.Millisecond, eventEvery)
	s.blocked = newestBlocked()
	for s.step() == nil {
	}
}

// eventStream is a client that receives events.
type eventStream struct {
	h       *handler
	w       http.ResponseWriter
	r       *http.Request
	control *http.ResponseController
	every   time.Duration
	next    time.Duration // when the next event of loops is due
	blocked time.Time     // of the newest blocked turn that was sent
}

// step sends at most one event, and waits for a while.
func (s *eventStream) step() error {
	s.h.attachTasks()
	if b := nextBlocked(s.blocked); b != nil {
		s.blocked = b.At
		if err := s.send("blocked", b); err != nil {
			return err
		}
	} else if now() >= s.next {
		s.next = now() + s.every
		answer, err := offLoop(s.r, func() (any, error) {
			began := now()
			loops := readSharedLoops()
			return inspectapi.LoopsAnswer{Header: s.h.header(began), Loops: loops}, nil
		})
		if err == nil {
			err = s.send("loops", answer)
		}
		if err != nil {
			return err
		}
	}
	return pause(s.r, eventEvery)
}

// send sends an event.
func (s *eventStream) send(name string, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	_ = s.control.SetWriteDeadline(wallTime().Add(writeWait)) // where there is one
	if _, err := fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", name, text); err != nil {
		return err
	}
	return s.control.Flush()
}

// pause waits, in a task without blocking its loop.
func pause(r *http.Request, d time.Duration) error {
	ctx := r.Context()
	if spindle.Current(ctx) != nil {
		return spindle.Sleep(ctx, d)
	}
	expired, stop := afterPause(d)
	defer stop()
	select {
	case <-expired:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// newestBlocked returns when the newest blocked turn was noticed.
func newestBlocked() (at time.Time) {
	for _, s := range openSources() {
		turns, _ := s.l.Internal().BlockedTurns()
		if n := len(turns); n > 0 && turns[n-1].At.After(at) {
			at = turns[n-1].At
		}
	}
	return at
}

// nextBlocked returns the oldest blocked turn that was noticed after a time, or nil.
func nextBlocked(after time.Time) *inspectapi.Blocked {
	var next *probe.BlockedTurn
	var of *source
	for _, s := range (&query{}).sources() {
		turns, _ := s.l.Internal().BlockedTurns()
		for i := range turns {
			if turns[i].At.After(after) && (next == nil || turns[i].At.Before(next.At)) {
				next, of = &turns[i], s
			}
		}
	}
	if next == nil {
		return nil
	}
	b := of.describeBlocked(next)
	return &b
}
