package web

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spindleloop/spindle/internal/http1"
	"github.com/spindleloop/spindle/transport"
)

// response is the http.ResponseWriter of a handler. What the handler writes is collected in
// the draft's buffers, off the loop if the handler is; what does not fit is sent by the
// loop, and the call waits until the peer has caught up.
//
// Exported methods enter the guard; the call inside it owns the draft. When the guard is
// closed and empty, the draft belongs to the loop.
type response struct {
	guard
	x      *exchange   // never changes
	header http.Header // never changes; the handler's map, and never reused
	*draft             // nil after finish: nothing can be written then
}

// draft is a response while it is written. Drafts are reused: unlike the response, a
// handler cannot keep one.
type draft struct {
	head []byte    // of the response, as far as it is known and not sent
	buf  []byte    // of the body, with what ends it, not sent
	tail []byte    // the trailers of a stream
	s    *h2Stream // nil for HTTP/1.1; never changes

	since    time.Duration // when the request came; within a turn unless it is logged or counted
	host     string        // the request's; only for the log
	date     string
	status   int      // 0 in draftOpen
	declared int64    // by Content-Length; -1 if it is not
	written  int64    // bytes of the body
	trailers []string // names of fields after the body
	fields   uint32   // how many keys the header had in writeHeader
	connFrom uint32   // in head, where the field Connection begins
	connTo   uint32   // and ends; 0 if there is none
	facts    headFacts
	phase    draftPhase
	framing  framing
	closes   bool  // the connection closes after the response
	fault    error // why nothing more can be written: a bad header, or a lost client
}

// draftPhase is how much of a response is decided.
//
//	open ──WriteHeader, Write──▶ headed ──flush, return──▶ committed
//	  │                                                        │
//	  └─────────────────Hijack, Upgrade──▶ taken ◀───Hijack────┘
type draftPhase uint8

const (
	draftOpen      draftPhase = iota // neither status nor header
	draftHeaded                      // status and header; changes of the map are for trailers
	draftCommitted                   // the head is complete: framing and closes are decided
	draftTaken                       // the connection is not the server's any more
)

// framing is how the client finds the end of the response's body.
type framing uint8

const (
	frameNone   framing = iota // undecided, or there is no body
	frameLength                // by Content-Length
	frameChunks                // by the last chunk
	frameClose                 // by the end of the connection
)

// headFacts are what a handler's header says.
type headFacts uint16

const (
	saysType headFacts = 1 << iota
	saysEncoding
	saysDate
	saysConnection
	saysClose      // in Connection
	noLength       // by a Content-Length without a value
	saysChunked    // in Transfer-Encoding
	saysNotChunked // another transfer coding
	saysTrailer    // by a key with http.TrailerPrefix
)

func (w *response) init(x *exchange) {
	w.x, w.header, w.draft = x, make(http.Header), x.st.takeDraft()
}

// leave ends a call that has entered the guard.
func (w *response) leave() {
	if w.guard.leave() {
		w.x.end(w.x.st.l.Owns())
	}
}

// Header returns the header that WriteHeader will send. After the handler has returned, it
// returns a header that is never used.
func (w *response) Header() http.Header {
	if w.closed() {
		return make(http.Header)
	}
	return w.header
}

// WriteHeader fixes status and header. An interim response (1xx) is sent at once, and
// another may follow.
func (w *response) WriteHeader(status int) {
	if err := w.enter(); err != nil {
		w.logMistake("WriteHeader: " + err.Error())
		return
	}
	defer w.leave()
	w.setStatus(status)
}

// setStatus is WriteHeader inside the guard.
func (w *response) setStatus(status int) {
	switch {
	case w.phase == draftTaken:
		w.logMistake("WriteHeader after Hijack")
		return
	case w.phase != draftOpen:
		w.logMistake("superfluous WriteHeader")
		return
	case status < 100 || status > 999:
		panic(fmt.Sprintf("web: WriteHeader with %d", status))
	case status < 200 && status != http.StatusSwitchingProtocols:
		w.inform(status)
		return
	}
	w.status, w.phase = status, draftHeaded
	w.writeHeader()
}

// inform sends an interim response.
func (w *response) inform(status int) {
	if w.x.version == http1.HTTP10 {
		return // an HTTP/1.0 client does not know interim responses
	}
	if status == http.StatusContinue && w.x.body != nil {
		w.x.body.awaits.Store(continueSent)
	}
	if w.s != nil {
		w.informStream(status)
		return
	}
	b := http1.AppendStatusLine(nil, http1.HTTP11, status)
	b, err := http1.AppendHeader(b, interim(w.header))
	if err != nil {
		w.logMistake(err.Error())
		return
	}
	_ = w.send(append(b, "\r\n"...))
}

// bodyless reports whether a response with that status has no body.
func bodyless(status int) bool {
	return status < 200 || status == http.StatusNoContent || status == http.StatusNotModified
}

func (w *response) toHead() bool { return w.x.method == "HEAD" }

// Write writes p to the body.
func (w *response) Write(p []byte) (int, error) { return write(w, p) }

// WriteString is like Write.
func (w *response) WriteString(s string) (int, error) { return write(w, s) }

func write[Bytes string | []byte](w *response, p Bytes) (int, error) {
	if err := w.enter(); err != nil {
		return 0, err
	}
	defer w.leave()
	if err := w.admit(int64(len(p))); err != nil || len(p) == 0 {
		return 0, err
	}
	if w.toHead() {
		if missing := sniffed - len(w.buf); missing > 0 {
			w.buf = append(w.buf, p[:min(missing, len(p))]...)
		}
		return len(p), nil
	}
	if len(w.buf)+len(p) <= bufferSize {
		w.buf = append(w.buf, p...)
		return len(p), nil
	}
	if err := w.flush([]byte(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// sniffed is how much of a body its type is detected from.
const sniffed = 512

// admit counts n more bytes of the body. It returns an error if they cannot be written.
func (w *response) admit(n int64) error {
	switch w.phase {
	case draftTaken:
		return http.ErrHijacked
	case draftOpen:
		w.setStatus(http.StatusOK)
	}
	switch {
	case w.fault != nil:
		return w.fault
	case n == 0:
		return nil
	case bodyless(w.status):
		return http.ErrBodyNotAllowed
	case w.declared >= 0 && w.written+n > w.declared:
		return http.ErrContentLength
	}
	w.written += n
	return nil
}

// flush sends what was collected, and p, and waits until the peer has caught up.
func (w *response) flush(p []byte) error {
	if w.phase == draftHeaded {
		w.commit(p, false)
	}
	if w.s != nil {
		return w.flushStream(p)
	}
	if w.toHead() {
		w.buf = w.buf[:0]
	}
	n := len(w.buf) + len(p)
	bufs := [4][]byte{0: w.head, 1: w.buf, 2: p}
	if w.framing == frameChunks && n > 0 {
		w.head = http1.AppendChunkHead(w.head, n)
		bufs[0], bufs[3] = w.head, chunkEnd
	}
	err := w.send(bufs[:]...)
	w.head, w.buf = w.head[:0], w.buf[:0]
	return err
}

var chunkEnd = []byte(http1.ChunkEnd)

// send writes to the connection and waits until the peer has caught up. If the connection
// is lost, later calls fail like this one; if only the wait was cancelled, they do not.
func (w *response) send(bufs ...[]byte) error {
	var lost error
	err := w.x.st.await("the client to read", func(done func(error)) {
		c := w.x.c
		if lost = w.x.lost(); lost != nil {
			done(lost)
			return
		}
		if w.phase != draftOpen {
			w.x.wire = wireBegun
		}
		c.tc.Writev(bufs)
		c.afterWrites(func(err error) {
			lost = err
			done(err)
		})
	})
	if err != nil && lost != nil {
		w.fault = lost
	}
	return err
}

// FlushError sends what was written.
func (w *response) FlushError() error {
	if err := w.enter(); err != nil {
		return err
	}
	defer w.leave()
	if err := w.admit(0); err != nil {
		return err
	}
	onLoop := w.x.st.l.Owns()
	if !onLoop && w.flushed() {
		return nil
	}
	err := w.flush(nil)
	if onLoop {
		w.dropBuffers()
	}
	return err
}

// flushed reports whether a flush has nothing to send, to a client that is there. Handlers of gRPC
// flush twice, and each flush of a goroutine waits for the loop.
func (w *response) flushed() bool {
	return w.phase == draftCommitted && len(w.head)+len(w.buf) == 0 && w.x.ctx.Err() == nil
}

// dropBuffers gives the empty buffers back, on the loop: a handler that flushes may be an event stream
// and silent for long. The next write allocates what it needs.
func (w *response) dropBuffers() {
	st := w.x.st
	st.giveBuffer(w.head)
	st.giveBuffer(w.buf)
	w.head, w.buf = nil, nil
}

// Flush is FlushError for http.Flusher.
func (w *response) Flush() { _ = w.FlushError() }

// end completes the response when the handler has returned.
func (w *response) end() {
	switch w.phase {
	case draftTaken:
		return
	case draftOpen:
		w.setStatus(http.StatusOK)
		fallthrough
	case draftHeaded:
		w.commit(nil, true)
	}
	switch {
	case w.fault != nil:
		w.closes = true // the client may have got less than the header says
	case bodyless(w.status):
	case w.s != nil:
		w.endStream()
	case w.toHead():
		w.buf = w.buf[:0]
	case w.framing == frameChunks:
		w.endChunks()
	case w.declared >= 0 && w.written != w.declared:
		w.closes = true // the client would take the next response for the rest
	}
}

// sendLast sends what is left after end, on the loop.
func (w *response) sendLast(tc *transport.Conn) {
	if len(w.buf) == 0 {
		tc.Write(w.head)
		return
	}
	bufs := append(w.x.st.vec[:0], w.head, w.buf)
	tc.Writev(bufs)
	clear(bufs)
	w.x.st.vec = bufs
}

// logMistake logs a mistake of the handler.
func (w *response) logMistake(what string) {
	w.x.st.sv.server.errorLog().Error("web: "+what, "method", w.x.method, "target", w.x.target)
}

// responseOf returns the response that w is, or that its Unwrap methods lead to. It returns
// nil for a writer of another package.
func responseOf(w http.ResponseWriter) *response {
	for w != nil {
		switch at := w.(type) {
		case *response:
			return at
		case interface{ Unwrap() http.ResponseWriter }:
			w = at.Unwrap()
		default:
			return nil
		}
	}
	return nil
}

var errUnsupported = fmt.Errorf("web: not a ResponseWriter of this package: %w", errors.ErrUnsupported)
