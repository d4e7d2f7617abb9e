package web

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/spindleloop/spindle/internal/http1"
)

// writeHeader writes the status line and the header. Later changes of the header are for
// trailers. The fields that depend on the body are written by commit.
func (w *response) writeHeader() {
	w.appendStatus()
	w.fields = uint32(len(w.header))
	switch w.fields {
	case 0:
	case 1:
		w.writeSingle()
	default:
		w.writeOrdered()
	}
}

// writeSingle writes the only field. That is mostly Content-Type, and a lookup takes less
// than an iteration.
func (w *response) writeSingle() {
	if values, ok := w.header["Content-Type"]; ok {
		w.writeFieldOrReject("Content-Type", values)
		return
	}
	for key, values := range w.header { // any order: there is one
		w.writeFieldOrReject(key, values)
	}
}

// writeOrdered writes the fields in the order of their names, or in that of http1.FieldOrder.
func (w *response) writeOrdered() {
	keys := make([]string, 0, 16)
	for key := range w.header { // any order: sorted below
		keys = append(keys, key)
	}
	for _, key := range http1.InOrder(w.header, keys) {
		if !w.writeFieldOrReject(key, w.header[key]) {
			return
		}
	}
}

// writeFieldOrReject is writeField, and replaces the response if that fails.
func (w *response) writeFieldOrReject(key string, values []string) (ok bool) {
	err := w.writeField(key, values)
	if err != nil {
		w.reject(err)
	}
	return err == nil
}

// named reports whether key is the name, which is in canonical form. Handlers may write keys
// in any case.
func named(key, name string) bool {
	return len(key) == len(name) && (key == name || strings.EqualFold(key, name))
}

// writeField writes a field and notes what it says. Fields that commit writes are only
// noted.
func (w *response) writeField(key string, values []string) (err error) {
	switch {
	case w.s != nil && ofConnection(key):
		w.noteOfConnection(key, values)
		return nil
	case named(key, "Content-Type"):
		w.facts |= saysType
	case named(key, "Content-Length"):
		w.declare(values)
		return nil
	case named(key, "Transfer-Encoding"):
		w.encode(values)
		return nil
	case key == "Content-Encoding" && len(values) > 0 && values[0] != "":
		w.facts |= saysEncoding
	case named(key, "Date"):
		w.facts |= saysDate
	case named(key, "Connection") && len(values) > 0:
		return w.writeConnection(values)
	case key == "Trailer":
		values = w.declareTrailers(values)
	case strings.HasPrefix(key, http.TrailerPrefix):
		w.facts |= saysTrailer
		return nil
	}
	for _, value := range values {
		if err = w.appendField(key, value); err != nil {
			return err
		}
	}
	return nil
}

// writeConnection writes the field Connection and notes where: commit removes it if the
// connection closes and the field says something else.
func (w *response) writeConnection(values []string) (err error) {
	w.facts |= saysConnection
	if http1.HasToken(values, "close") {
		w.facts |= saysClose
		w.closes = true
	}
	w.connFrom = uint32(len(w.head))
	for _, value := range values {
		if w.head, err = http1.AppendField(w.head, "Connection", value); err != nil {
			return err
		}
	}
	w.connTo = uint32(len(w.head))
	return nil
}

// encode notes the transfer coding that the handler sets. The server writes the field
// itself: for chunked where it is used, and a body in any other coding ends with the
// connection.
func (w *response) encode(values []string) {
	if len(values) == 0 || values[0] == "" {
		return
	}
	switch {
	case len(values) == 1 && values[0] == "chunked":
		w.facts |= saysChunked
	case len(values) == 1 && values[0] == "identity":
		w.facts |= saysNotChunked
		return // a length that is declared holds
	default:
		w.facts |= saysNotChunked
	}
	w.declared = -1 // the coding is stronger; Content-Length was written before it
}

// declare notes the length that the handler declares. A field without a value means that
// the response has no Content-Length.
func (w *response) declare(values []string) {
	if len(values) == 0 {
		w.facts |= noLength
		return
	}
	n, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil || n < 0 {
		w.logMistake("invalid Content-Length " + strconv.Quote(values[0]))
		return
	}
	w.declared = n
}

// declareTrailers notes which fields come after the body. It returns the declaration to
// write, without fields that must not be trailers: clients refuse such a response.
func (w *response) declareTrailers(values []string) []string {
	forbidden := false
	for _, value := range values {
		for name := range strings.SplitSeq(value, ",") {
			switch name = http.CanonicalHeaderKey(strings.TrimSpace(name)); {
			case http1.MayTrail(name):
				w.trailers = append(w.trailers, name)
			case name != "":
				forbidden = true
				w.logMistake("forbidden trailer " + strconv.Quote(name))
			}
		}
	}
	switch {
	case !forbidden:
		return values
	case len(w.trailers) == 0:
		return nil
	}
	return []string{strings.Join(w.trailers, ", ")}
}

// reject replaces the response by a 500 because a field cannot be written: clients would
// not read it as it was meant.
func (w *response) reject(err error) {
	w.logMistake("header: " + err.Error())
	w.fault = err
	w.status = http.StatusInternalServerError
	w.facts, w.declared, w.trailers = saysType, -1, nil
	w.closes = w.s == nil
	w.appendStatus()
	w.buf = w.buf[:0]
}

// commit completes the head. first is what is sent after the collected part of the body.
// final says that the handler has returned, so that the body is complete.
func (w *response) commit(first []byte, final bool) {
	if w.s != nil {
		w.commitStream(first, final)
		return
	}
	w.phase = draftCommitted
	x := w.x
	if !w.facts.has(saysDate) {
		w.head = append(w.head, w.date...)
	}
	if !bodyless(w.status) {
		w.writeType(first)
		w.frame(final)
	}
	if !x.persists || w.closes || x.st.sv.closesConns() || w.leavesBody(final) {
		w.closes = true
	}
	if w.closes && w.facts.has(saysConnection) && !w.facts.has(saysClose) && w.status != http.StatusSwitchingProtocols {
		w.head = slices.Delete(w.head, int(w.connFrom), int(w.connTo))
		w.facts &^= saysConnection
	}
	switch {
	case w.facts.has(saysConnection) || w.closes && x.version == http1.HTTP10:
	case w.closes:
		w.head = append(w.head, "Connection: close\r\n"...)
	case x.version == http1.HTTP10:
		w.head = append(w.head, "Connection: keep-alive\r\n"...)
	}
	w.head = append(w.head, "\r\n"...)
}

func (f headFacts) has(what headFacts) bool { return f&what != 0 }

// writeType detects the body's type from its beginning, if the handler has set none.
func (w *response) writeType(first []byte) {
	if w.facts.has(saysType|saysEncoding|saysChunked|saysNotChunked) || len(w.buf) == 0 && len(first) == 0 {
		return
	}
	start := w.buf
	if len(start) < sniffed && len(first) > 0 {
		start = slices.Concat(start, first[:min(len(first), sniffed-len(start))])
	}
	_ = w.appendField("Content-Type", http.DetectContentType(start))
}

// frame decides how the client finds the end of the body.
func (w *response) frame(final bool) {
	old := w.x.version == http1.HTTP10
	switch {
	case w.declared >= 0:
		w.framing = frameLength
		w.head = http1.AppendContentLength(w.head, w.declared)
	case w.facts.has(saysNotChunked):
		w.framing = frameClose
		w.closes = w.closes || !w.toHead()
	case final && !w.facts.has(noLength|saysChunked) && (old || len(w.trailers) == 0 && !w.prefixedTrailers()):
		// HEAD gets the same as GET, for which a longer body would have been flushed. A
		// handler that wrote nothing to HEAD may write something to GET.
		if !w.toHead() || w.written > 0 && w.written <= bufferSize {
			w.framing = frameLength
			w.head = http1.AppendContentLength(w.head, w.written)
		}
	case w.toHead():
	case old:
		w.framing, w.closes = frameClose, true
	default:
		w.framing = frameChunks
		w.head = append(w.head, "Transfer-Encoding: chunked\r\n"...)
	}
}

// prefixedTrailers reports whether the header has keys with http.TrailerPrefix. It searches
// the header only if the number of keys has changed since writeHeader. A handler that
// replaces a key by such a trailer, and writes little, loses the trailer, as with net/http.
func (w *response) prefixedTrailers() bool {
	if w.facts.has(saysTrailer) {
		return true
	}
	if len(w.header) == int(w.fields) {
		return false
	}
	for key := range w.header {
		if strings.HasPrefix(key, http.TrailerPrefix) {
			return true
		}
	}
	return false
}

// interim returns h without the fields that frame a body and without trailers.
func interim(h http.Header) http.Header {
	cloned := false
	for key := range h { // any order: each key is decided alone
		if !named(key, "Content-Length") && !named(key, "Transfer-Encoding") && !strings.HasPrefix(key, http.TrailerPrefix) {
			continue
		}
		if !cloned {
			h, cloned = maps.Clone(h), true
		}
		delete(h, key)
	}
	return h
}

// leavesBody reports whether the connection must close because of the request's body: too
// much of it is left, or it is not known whether the client sends it. The length of a
// chunked body is known only at its end, so it is skipped here after the handler's return.
func (w *response) leavesBody(final bool) bool {
	x := w.x
	switch {
	case x.body == nil:
		return false
	case x.body.awaits.Load() == continueAwaited:
		return true
	case final && x.body.length < 0:
		return !x.body.skip()
	}
	return x.body.tooMuchLeft()
}
