package web

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/spindleloop/spindle/internal/http1"
)

// writeHeader writes status line and header as they are now; what the handler changes
// later is for trailers. What depends on the body follows in commit.
func (w *response) writeHeader() {
	w.head = http1.AppendStatusLine(w.head[:0], w.x.version, w.status)
	w.fields = uint32(len(w.header))
	switch w.fields {
	case 0:
	case 1:
		for key, values := range w.header {
			w.writeFieldOrReject(key, values)
		}
	default:
		w.writeSorted()
	}
}

// writeSorted writes the fields in the order of their names.
func (w *response) writeSorted() {
	var room [16]string
	keys := room[:0]
	for key := range w.header {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		if !w.writeFieldOrReject(key, w.header[key]) {
			return
		}
	}
}

// writeFieldOrReject is writeField that answers in place of the handler if it fails.
func (w *response) writeFieldOrReject(key string, values []string) (ok bool) {
	err := w.writeField(key, values)
	if err != nil {
		w.reject(err)
	}
	return err == nil
}

// named reports whether a key of a header means the field of that name, which is in
// canonical form. Handlers may write keys in any case.
func named(key, name string) bool {
	return len(key) == len(name) && (key == name || strings.EqualFold(key, name))
}

// writeField writes a field unless somebody else does, and notes what it says.
func (w *response) writeField(key string, values []string) (err error) {
	switch {
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
		if w.head, err = http1.AppendField(w.head, key, value); err != nil {
			return err
		}
	}
	return nil
}

// writeConnection writes the field Connection, and notes where: it is taken back if the
// connection turns out to close and the handler has said something else.
func (w *response) writeConnection(values []string) (err error) {
	w.facts |= saysConnection
	if hasToken(values, "close") {
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

// encode notes the transfer coding that the handler asks for. The field itself is the
// server's: chunked is written where it is used, and a body in any other coding ends
// with the connection.
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

// declare takes down the length that the handler promises. A field without a value means
// that the response is to have none.
func (w *response) declare(values []string) {
	if len(values) == 0 {
		w.facts |= noLength
		return
	}
	n, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil || n < 0 {
		w.mistake("invalid Content-Length " + strconv.Quote(values[0]))
		return
	}
	w.declared = n
}

// declareTrailers notes which fields come after the body. It returns the declaration to
// write, without fields that may not be trailers: clients refuse such a response.
func (w *response) declareTrailers(values []string) []string {
	forbidden := false
	for _, list := range values {
		for name := range strings.SplitSeq(list, ",") {
			switch name = http.CanonicalHeaderKey(strings.TrimSpace(name)); {
			case http1.MayTrail(name):
				w.trailers = append(w.trailers, name)
			case name != "":
				forbidden = true
				w.mistake("forbidden trailer " + strconv.Quote(name))
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

func hasToken(values []string, token string) bool {
	for _, value := range values {
		for item := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(item), token) {
				return true
			}
		}
	}
	return false
}

// reject answers in place of a handler whose header cannot be written: it would not
// be read as it was meant.
func (w *response) reject(err error) {
	w.mistake("header: " + err.Error())
	w.fault = err
	w.status = http.StatusInternalServerError
	w.facts, w.declared, w.trailers = saysType, -1, nil
	w.closes = true
	w.head = http1.AppendStatusLine(w.head[:0], w.x.version, w.status)
	w.buf = w.buf[:0]
}

// commit completes the head. First is what will be written besides what was
// collected; final tells that there is no more.
func (w *response) commit(first []byte, final bool) {
	w.committed = true
	x := w.x
	if !w.facts.has(saysDate) {
		w.head = append(w.head, w.date...)
	}
	if !bodyless(w.status) {
		w.writeType(first)
		w.frame(final)
	}
	if x.last || !x.keepAlive || w.closes || x.st.sv.closesConns() || w.leavesBody(final) {
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

// writeType tells the body's type from its beginning, if the handler did not.
func (w *response) writeType(first []byte) {
	if w.facts.has(saysType|saysEncoding|saysChunked|saysNotChunked) || len(w.buf) == 0 && len(first) == 0 {
		return
	}
	start := w.buf
	if len(start) < sniffed && len(first) > 0 {
		start = slices.Concat(start, first[:min(len(first), sniffed-len(start))])
	}
	w.head = append(w.head, "Content-Type: "...)
	w.head = append(w.head, http.DetectContentType(start)...)
	w.head = append(w.head, "\r\n"...)
}

// frame says where the body will end.
func (w *response) frame(final bool) {
	old := w.x.version == http1.HTTP10
	switch {
	case w.declared >= 0:
		w.head = http1.AppendContentLength(w.head, w.declared)
	case w.facts.has(saysNotChunked):
		w.closes = w.closes || !w.toHead()
	case final && !w.facts.has(noLength|saysChunked) && (old || len(w.trailers) == 0 && !w.prefixedTrailers()):
		// To HEAD the same as to GET, for which more would have been flushed. That
		// nothing was written says nothing of GET.
		if !w.toHead() || w.written > 0 && w.written <= bufferSize {
			w.head = http1.AppendContentLength(w.head, w.written)
		}
	case w.toHead():
	case old:
		w.closes = true
	default:
		w.chunked = true
		w.head = append(w.head, "Transfer-Encoding: chunked\r\n"...)
	}
}

// prefixedTrailers reports whether the header has keys with http.TrailerPrefix. While it
// has as many keys as writeHeader saw it is not searched again. A handler that has
// replaced a key since then by such a trailer, and has written little, loses the trailer,
// as with net/http.
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

// leavesBody reports whether the connection cannot go on because of the request's body:
// too much of it is left, or the client may send it or not. How long a chunked body is
// shows only at its end, so after the handler's return (final) it is skipped here.
func (w *response) leavesBody(final bool) bool {
	x := w.x
	switch {
	case x.body == nil:
		return false
	case x.expects && !x.body.asked.Load():
		return true
	case final && x.body.length < 0:
		return !x.body.skip()
	}
	return x.body.leavesTooMuch()
}
