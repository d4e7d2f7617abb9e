package web

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/spindleloop/spindle/internal/direct"
	"github.com/spindleloop/spindle/internal/http1"
	"github.com/spindleloop/spindle/internal/http2"
)

// appendStatus begins the head with the status.
func (w *response) appendStatus() {
	if w.s != nil {
		w.head = http2.AppendStatus(w.head[:0], w.status)
		return
	}
	w.head = http1.AppendStatusLine(w.head[:0], w.x.version, w.status)
}

// appendField appends a field to the head.
func (w *response) appendField(key, value string) (err error) {
	if w.s != nil {
		w.head, err = http2.AppendField(w.head, key, value)
	} else {
		w.head, err = http1.AppendField(w.head, key, value)
	}
	return err
}

// serveDirect calls h if it encodes the fields of the response itself. It reports whether it does.
func (x *exchange) serveDirect(h http.Handler) bool {
	d, ok := h.(direct.Handler)
	if ok {
		d.ServeDirect(&x.w, &x.req)
	}
	return ok
}

// Respond is for handlers of package direct.
func (w *response) Respond(fields string) {
	if err := w.enter(); err != nil {
		w.logMistake("Respond: " + err.Error())
		return
	}
	defer w.leave()
	w.status, w.phase, w.facts = http.StatusOK, draftHeaded, saysType
	w.appendStatus()
	w.head = append(w.head, fields...)
}

// Trail is for handlers of package direct.
func (w *response) Trail(fields string) {
	if err := w.enter(); err != nil {
		w.logMistake("Trail: " + err.Error())
		return
	}
	defer w.leave()
	w.tail = append(w.tail, fields...)
}

var _ direct.Response = (*response)(nil)

// ofConnection reports whether a field is about the connection, and so not sent on a stream.
func ofConnection(key string) bool {
	switch len(key) {
	case len("Upgrade"):
		return named(key, "Upgrade")
	case len("Connection"):
		return named(key, "Connection") || named(key, "Keep-Alive")
	case len("Proxy-Connection"):
		return named(key, "Proxy-Connection")
	case len("Transfer-Encoding"):
		return named(key, "Transfer-Encoding")
	}
	return false
}

// noteOfConnection notes what a field about the connection says. Close ends the connection
// after the streams under way.
func (w *response) noteOfConnection(key string, values []string) {
	if named(key, "Connection") && http1.HasToken(values, "close") {
		w.closes = true
	}
}

// commitStream is commit for a stream. Its end needs no framing, so Content-Length is only
// information.
func (w *response) commitStream(first []byte, final bool) {
	w.phase = draftCommitted
	if !w.facts.has(saysDate) {
		w.head = append(w.head, w.date...)
	}
	if bodyless(w.status) {
		return
	}
	w.writeType(first)
	switch {
	case w.declared >= 0:
		w.framing = frameLength
		w.head = http2.AppendContentLength(w.head, w.declared)
	case final && !w.facts.has(noLength):
		if !w.toHead() || w.written > 0 && w.written <= bufferSize {
			w.framing = frameLength
			w.head = http2.AppendContentLength(w.head, w.written)
		}
	}
}

// flushStream is flush for a stream.
func (w *response) flushStream(p []byte) error {
	if w.toHead() {
		w.buf, p = w.buf[:0], nil
	}
	s := w.s
	if w.x.st.l.Owns() {
		defer s.keep() // the task's wait may be cancelled; that of a goroutine ends only with the loop
	}
	var lost error
	err := w.x.st.await("the client to read", func(done func(error)) {
		if lost = w.x.lost(); lost != nil {
			done(lost)
			return
		}
		w.x.wire = wireBegun
		if len(w.head) > 0 {
			s.writeHead(w.head, false)
		}
		s.write(w.buf)
		s.lend(p)
		s.whenSent(func(err error) {
			lost = err
			done(err)
		})
	})
	if err != nil && lost != nil {
		w.fault = lost
	}
	w.head, w.buf = w.head[:0], w.buf[:0]
	return err
}

// whenSent calls done when nothing is pending, at once if that is so now.
func (s *h2Stream) whenSent(done func(error)) {
	if s.at == len(s.pending) {
		done(nil)
		return
	}
	s.writer = done
}

// informStream is inform for a stream.
func (w *response) informStream(status int) {
	b := http2.AppendStatus(nil, status)
	header := interim(w.header)
	for _, key := range slices.Sorted(maps.Keys(header)) {
		if ofConnection(key) {
			continue
		}
		for _, value := range header[key] {
			var err error
			if b, err = http2.AppendField(b, key, value); err != nil {
				w.logMistake(err.Error())
				return
			}
		}
	}
	_ = w.x.st.do(func() error {
		if err := w.x.lost(); err != nil {
			return err
		}
		w.s.writeHead(b, false)
		return nil
	})
}

// endStream encodes the trailers, if there are any.
func (w *response) endStream() {
	if len(w.trailers) == 0 && !w.prefixedTrailers() {
		return
	}
	if key := w.onlyTrailer(); key != "" {
		w.appendTrailer(http.CanonicalHeaderKey(key[len(http.TrailerPrefix):]), w.header[key])
		return
	}
	trailers := w.collectTrailers()
	for _, name := range slices.Sorted(maps.Keys(trailers)) {
		w.appendTrailer(name, trailers[name])
	}
}

// onlyTrailer returns the key of the only trailer, if it has http.TrailerPrefix, and "" otherwise.
// That is the status of a gRPC call, mostly.
func (w *response) onlyTrailer() (only string) {
	if len(w.trailers) > 0 {
		return ""
	}
	for key := range w.header { // any order: there must be one
		switch {
		case !strings.HasPrefix(key, http.TrailerPrefix):
		case only != "":
			return ""
		default:
			only = key
		}
	}
	return only
}

func (w *response) appendTrailer(name string, values []string) {
	for _, value := range values {
		b, err := http2.AppendField(w.tail, name, value)
		if err != nil {
			w.logMistake("trailer " + name + ": " + err.Error())
		}
		w.tail = b
	}
}

// short reports whether the handler wrote less than it has declared.
func (w *response) short() bool {
	return w.declared >= 0 && w.written != w.declared && !w.toHead() && !bodyless(w.status)
}

// finishStream sends what is left of the response, on the loop.
func (x *exchange) finishStream(late bool) {
	w := &x.w
	s := w.s
	h := s.h
	switch {
	case s.Closed():
	case w.phase == draftTaken:
		if x.handler == handlerFailed {
			s.tunnel.close()
		}
	case x.handler == handlerFailed || late || w.fault != nil && x.wire != wireSilent:
		s.reset(http2.InternalError, http.ErrAbortHandler)
	case w.short():
		if len(w.head) > 0 {
			s.writeHead(w.head, false)
		}
		s.write(w.buf)
		s.reset(http2.InternalError, http.ErrAbortHandler)
	default:
		if bodyless(w.status) || w.toHead() {
			w.buf = w.buf[:0]
		}
		if len(w.head) > 0 {
			s.writeHead(w.head, len(w.buf) == 0 && len(w.tail) == 0)
		}
		if s.Sending() {
			s.finish(w.buf, w.tail)
		} else {
			s.over = true
			s.answered()
		}
	}
	h.running--
	if w.closes && !h.fc.Leaving() {
		h.leave()
	}
}
