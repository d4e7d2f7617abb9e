package web

import (
	"net/http"
	"slices"
	"time"

	"github.com/spindleloop/spindle/internal/http2"
)

// leaveTime is how long a peer may take to answer the PING of a connection that ends.
const leaveTime = time.Second

// fail ends the connection because of a mistake of the peer, which the GOAWAY in Out names.
func (h *h2Conn) fail(err error) {
	h.endStreams(ErrClientGone)
	h.flush()
	h.fc.Out = h.c.st.takeFrames()
	h.c.close()
	h.marks |= h2Failed
	if err == http2.ErrFlood {
		h.dropped = dropLimit
	}
	h.drop(nil)
}

// After a mistake of the peer dropLimit bytes are read and dropped: what it had sent before it saw
// the GOAWAY. A read counts as dropPiece at least. The rest is not read, because dropping a
// flood would cost as much as the flood.
const (
	dropLimit = 256 << 10
	dropPiece = 4 << 10
)

// drop is called with what is received after the end of the connection.
func (h *h2Conn) drop(data []byte) {
	switch {
	case !h.is(h2Failed) || h.c.phase != connLingering:
	case h.dropped >= dropLimit:
		h.c.pauseReading()
	default:
		h.dropped += int32(max(len(data), dropPiece))
	}
}

// quit ends the connection without waiting for the streams.
func (h *h2Conn) quit(code http2.Code) {
	h.touch()
	if !h.fc.Over() {
		h.fc.LeaveFinally(code)
	}
	h.flush()
	h.c.close()
}

// leave ends the connection once the requests under way are answered. The peer is told
// twice, so that no request is lost that is on its way.
func (h *h2Conn) leave() {
	c := h.c
	switch {
	case c.phase != connOpen || h.fc.Over():
		return
	case h.fc.Leaving(): // the peer does not answer the PING
		h.touch()
		h.fc.LeaveFinally(http2.NoError)
	case h.fc.Partial():
		h.quit(http2.NoError)
		return
	default:
		h.touch()
		h.fc.Leave()
		c.st.leaving.add(c)
		return
	}
	h.settle()
}

// drainTunnels notifies the streams that handlers have taken.
func (h *h2Conn) drainTunnels() {
	for _, s := range slices.Clone(h.fc.Streams()) {
		if t := ownerOf(s).tunnel; t != nil {
			t.Draining(nil)
		}
	}
}

// idle reports whether no request is under way.
func (h *h2Conn) idle() bool { return len(h.fc.Streams()) == 0 && h.running == 0 }

// settle makes the connection wait for what comes next, with the time-out for that.
func (h *h2Conn) settle() {
	c, st := h.c, h.c.st
	if h.is(h2Parsing) {
		return
	}
	switch {
	case c.phase != connOpen:
	case c.is(peerEOF):
		h.endStreams(ErrClientGone)
		h.flush()
		c.hangUp()
	case h.fc.Over() && len(h.fc.Streams()) == 0:
		h.flush()
		c.close()
	case c.in == &st.leaving:
	case h.fc.Partial():
		if c.in != &st.heads {
			st.heads.add(c)
		}
	case !h.idle():
		c.leave()
	case h.fc.Leaving(): // LeaveFinally follows
	case st.closesIdle():
		h.leave()
	case c.in != &st.idle:
		h.waiting = nil
		st.idle.add(c)
		if st.observer != nil {
			st.observer.moved(c, http.StateIdle)
		}
	}
}

// endStreams ends all streams with the connection.
func (h *h2Conn) endStreams(cause error) {
	h.dropBegun()
	for {
		all := h.fc.Streams()
		if len(all) == 0 {
			return
		}
		s := all[len(all)-1]
		h.touch()
		h.fc.Reject(s, http2.Cancel)
		ownerOf(s).gone(cause)
	}
}

// lost ends the streams when the transport's connection has ended.
func (h *h2Conn) lost(cause error) {
	h.endStreams(cause)
	h.waiting = nil
	h.c.st.giveFrames(h.fc.Out)
	h.fc.Out = nil
}
