package web

import (
	"io"
	"net/http"
	"os"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/deferred"
	"github.com/spindleloop/spindle/internal/http1"
	"github.com/spindleloop/spindle/internal/http2"
	"github.com/spindleloop/spindle/internal/onloop"
)

// streamDeferral is a deferral on a stream of HTTP/2. It counts as a handler of the connection
// until it is finished or aborted, even when its stream was reset. Loop goroutine only.
type streamDeferral struct {
	h2Stream
	handler  deferred.Handler // nil when nothing more is reported
	received int64            // bytes of the body
	failed   bool             // the rest of the body is dropped
	awaits   bool             // the client waits for a 100 before it sends the body
	finished bool             // the response is complete, but for the file
	settled  bool             // the handler is no longer counted
	closes   bool             // the connection ends after the response
	file     *streamFile      // that is being sent; nil if there is none
}

var _ deferred.Stream = (*streamDeferral)(nil)

// deferStream is Defer for a stream. The stream is opened when the lean handler has returned
// true.
func (lc *LeanCtx) deferStream(h deferred.Handler) deferred.Answer {
	d := &streamDeferral{handler: h}
	d.h2Stream.h = lc.s.h
	lc.deferral = d
	return d
}

// beginDeferral opens the stream of a request that was deferred.
func (h *h2Conn) beginDeferral(d *streamDeferral) {
	hd := h.fc.Head()
	d.d, d.Owner = d, &d.h2Stream
	h.fc.Open(&d.Stream, true)
	d.Urgency, d.Incremental = hd.Priority()
	d.awaits = hd.ExpectsContinue()
	h.running++
	if h.fc.Ends() {
		d.handler.End()
	} else {
		d.timeBody()
	}
}

func (d *streamDeferral) Head() *http1.RequestParser { return nil }

func (d *streamDeferral) Header() *http2.Header { return d.h.fc.Head() }

func (d *streamDeferral) Ends() bool { return d.h.fc.Ends() }

func (d *streamDeferral) Remote() string { return d.h.c.remoteAddr() }

func (d *streamDeferral) Pass(value any) { d.h.c.st.lean.passed = value }

// Persists reports true: the connection's end is announced apart from responses.
func (d *streamDeferral) Persists() bool { return true }

func (d *streamDeferral) Continue() {
	if !d.Closed() && d.Receiving() {
		d.awaits = false
		d.writeHead(http2.AppendStatus(nil, http.StatusContinue), false)
	}
}

// Resume does nothing: a window limits what the client sends. See Consumed.
func (d *streamDeferral) Resume() {}

func (d *streamDeferral) Consumed(n int) {
	if !d.Closed() {
		d.h.touch()
		d.h.fc.Consume(&d.Stream, n)
	}
}

// bodyData passes a piece of the body on.
func (d *streamDeferral) bodyData(p []byte) {
	d.received += int64(len(p))
	if limit := d.h.c.st.sv.server.MaxBodyBytes; limit > 0 && d.received > limit {
		d.failBody(&http.MaxBytesError{Limit: limit})
	}
	if d.failed || d.handler == nil {
		d.h.fc.Consume(&d.Stream, len(p))
		return
	}
	d.bodyTimer.Cancel()
	d.timeBody() // the time is that between two pieces
	d.handler.Data(p)
}

// bodyEnds is called when the request is complete.
func (d *streamDeferral) bodyEnds() {
	if d.handler != nil && !d.failed {
		d.handler.End()
	}
}

func (d *streamDeferral) bodyTimedOut() {
	if d.Unread() > 0 || d.awaits {
		d.timeBody()
		return
	}
	d.failBody(errTimeout)
}

// failBody drops the rest of the body. The response can still be sent.
func (d *streamDeferral) failBody(err error) {
	if d.failed || d.handler == nil {
		return
	}
	d.failed = true
	d.handler.Failed(err)
	d.handler.Gone(err)
}

// lost is called when the client has reset the stream, or the connection has ended.
func (d *streamDeferral) lost(cause error) {
	if h := d.handler; h != nil {
		d.handler = nil
		if !d.failed {
			h.Gone(cause)
		}
		h.Lost()
	}
}

func (d *streamDeferral) Respond(block []byte, end bool) {
	if d.Sending() {
		d.writeHead(block, end)
	}
}

func (d *streamDeferral) Trail(block []byte) { d.trailers = append(d.trailers, block...) }

func (d *streamDeferral) Write(pieces ...[]byte) (held bool) {
	for _, p := range pieces {
		d.write(p)
	}
	if len(d.h.fc.Out) > framesSize { // a handler may write much in one turn
		d.h.flush()
	}
	if len(d.pending)-d.at <= highWater {
		return false
	}
	d.writer = func(err error) {
		if err == nil && d.handler != nil {
			d.handler.Writable()
		}
	}
	return true
}

func (d *streamDeferral) Finish(closes bool) { d.FinishWith(closes) }

func (d *streamDeferral) FinishWith(closes bool, pieces ...[]byte) {
	d.handler, d.finished, d.closes = nil, true, closes
	if d.file != nil {
		return // the rest is sent after it
	}
	last := len(pieces) - 1
	for i := 0; i < last; i++ {
		d.write(pieces[i])
	}
	switch {
	case d.Closed():
	case !d.Sending(): // the header was the end
		d.over = true
		d.answered()
	case last >= 0:
		d.finish(pieces[last], nil)
	default:
		d.finish(nil, nil)
	}
	d.settle()
}

func (d *streamDeferral) Abort() {
	d.handler = nil
	if !d.Closed() {
		d.reset(http2.InternalError, http.ErrAbortHandler)
	}
	d.settle()
}

// settle ends the count of the handler, once: a file that cannot be sent aborts the answer, and Finish follows.
func (d *streamDeferral) settle() {
	if d.settled {
		return
	}
	d.settled = true
	h := d.h
	h.running--
	if d.closes && !h.fc.Leaving() {
		h.leave()
	}
	h.settle()
}

// streamFile is a file that is sent on a stream. Workers read it piece by piece, because a disk
// may block.
type streamFile struct {
	d       *streamDeferral
	f       *os.File
	at, end int64
	buf     []byte
	done    func(error)
}

// filePiece is how much of a file is read at a time.
const filePiece = 256 << 10

func (d *streamDeferral) SendFile(f *os.File, offset, n int64, done func(error)) {
	if d.Closed() {
		done(d.ended())
		return
	}
	d.file = &streamFile{d: d, f: f, at: offset, end: offset + n, buf: make([]byte, min(n, filePiece)), done: done}
	d.file.next(nil)
}

// next reads the next piece when the one before was sent, or ends with an error.
func (f *streamFile) next(err error) {
	if err != nil || f.at == f.end {
		f.finish(err)
		return
	}
	piece := f.buf[:min(f.end-f.at, int64(len(f.buf)))]
	read := func() (int, error) { return f.f.ReadAt(piece, f.at) }
	_, err = onloop.Offload(f.d.h.c.st.l, nil, atclose.Drop, read, func(n int, err error) {
		switch {
		case f.d.Closed():
			f.finish(f.d.ended())
		case n < len(piece):
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF // shorter than it was
			}
			f.finish(err)
		default:
			f.at += int64(n)
			f.d.write(piece)
			f.d.whenSent(f.next)
		}
	})
	if err != nil {
		f.finish(err)
	}
}

// finish ends the file, and the response if that was complete.
func (f *streamFile) finish(err error) {
	d := f.d
	d.file = nil
	f.done(err)
	switch {
	case err != nil && !d.Closed():
		d.handler = nil
		d.reset(http2.InternalError, http.ErrAbortHandler)
	case !d.Closed() && d.finished:
		d.finish(nil, nil)
	}
	if d.finished {
		d.settle()
	}
}
