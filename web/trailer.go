package web

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/spindleloop/spindle/internal/http1"
)

// endChunks writes the last chunk and the trailers.
func (w *response) endChunks() {
	if n := len(w.buf); n > 0 {
		w.head = http1.AppendChunkHead(w.head, n)
		w.buf = append(w.buf, chunkEnd...)
	}
	trailers := w.collectTrailers()
	b, err := http1.AppendLastChunk(w.buf, trailers)
	if err != nil {
		w.dropBadTrailers(trailers)
		b, _ = http1.AppendLastChunk(w.buf, trailers)
	}
	w.buf = b
}

// collectTrailers returns the fields that follow the body.
func (w *response) collectTrailers() http.Header {
	trailers := make(http.Header)
	for _, name := range w.trailers {
		if values := w.header[name]; len(values) > 0 {
			trailers[name] = values
		}
	}
	var prefixed []string
	for key := range w.header { // any order: sorted below
		if strings.HasPrefix(key, http.TrailerPrefix) {
			prefixed = append(prefixed, key)
		}
	}
	slices.Sort(prefixed)
	for _, key := range prefixed {
		trailers[http.CanonicalHeaderKey(key[len(http.TrailerPrefix):])] = w.header[key]
	}
	return trailers
}

// dropBadTrailers removes the trailers that cannot be written, and only those.
func (w *response) dropBadTrailers(trailers http.Header) {
	for _, name := range slices.Sorted(maps.Keys(trailers)) {
		if _, err := http1.AppendLastChunk(nil, http.Header{name: trailers[name]}); err != nil {
			w.logMistake("trailer " + strconv.Quote(name) + ": " + err.Error())
			delete(trailers, name)
		}
	}
}
