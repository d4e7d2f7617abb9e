package web

import (
	"slices"

	"github.com/spindleloop/spindle/internal/http2"
)

// queue adds a stream to those that have data to send.
func (h *h2Conn) queue(s *h2Stream) {
	if s.queued {
		return
	}
	s.queued = true
	h.waiting = append(h.waiting, s)
	h.timeStall(s)
}

func (h *h2Conn) unqueue(s *h2Stream) {
	if s.queued {
		s.queued = false
		h.waiting = slices.DeleteFunc(h.waiting, func(o *h2Stream) bool { return o == s })
	}
}

// timeStall limits how long a stream may wait for a client that takes nothing.
func (h *h2Conn) timeStall(s *h2Stream) {
	if d := h.c.st.writeTimeout; d > 0 {
		s.mark = h.sent
		s.stallTimer.Cancel()
		s.stallTimer = h.c.st.l.CallLater(d, s.stalled)
	}
}

// stalled is called when a stream has waited for the write time-out. The client may have
// taken something of other streams meanwhile.
func (s *h2Stream) stalled() {
	h := s.h
	switch {
	case !s.queued || s.Closed():
	case h.sent != s.mark || h.fc.Room(&s.Stream) > 0: // the transport has a time-out for a client that does not read
		h.timeStall(s)
	default:
		h.touch()
		h.fc.Reject(&s.Stream, http2.Cancel)
		s.gone(errTimeout)
		h.settle()
	}
}

// pump sends what waits, as far as windows and the peer allow: the most urgent first, and
// streams of the same urgency one after the other, or in turns if they are incremental.
func (h *h2Conn) pump() {
	for h.c.phase == connOpen && h.c.output != outputHeld {
		s := h.nextStream()
		if s == nil {
			return
		}
		p := s.pending[s.at:]
		if s.Incremental {
			p = p[:min(len(p), h.fc.MaxFrame())]
		}
		if s.at+len(p) < len(s.pending) {
			over := s.over
			s.over = false // more follows p
			s.at += s.send(p)
			s.over = over
		} else {
			s.at += s.send(p)
		}
		if len(h.fc.Out) > highWater {
			h.flush()
		}
		switch {
		case s.at == len(s.pending):
			h.sentAll(s)
		case s.Incremental:
			h.unqueue(s)
			h.queue(s)
		}
	}
}

// sentAll is called when nothing of a stream waits any more.
func (h *h2Conn) sentAll(s *h2Stream) {
	h.unqueue(s)
	s.dropPending()
	s.stallTimer.Cancel()
	if s.over {
		s.answered()
	}
	s.wake(nil)
}

// nextStream returns the stream to send next, nil if none can send.
func (h *h2Conn) nextStream() (next *h2Stream) {
	for _, s := range h.waiting {
		if (next == nil || s.Urgency < next.Urgency) && h.fc.Room(&s.Stream) > 0 {
			next = s
		}
	}
	return next
}
