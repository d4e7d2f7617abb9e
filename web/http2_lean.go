package web

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/spindleloop/spindle/internal/http2"
)

// answersLean calls the lean handler. It reports whether the handler takes the request. The
// stream is one that the loop's requests share, unless the request or its answer has to wait.
func (h *h2Conn) answersLean(lean func(*LeanCtx) bool) bool {
	st := h.c.st
	s, lc := &st.leanStream, &st.lean
	*s = h2Stream{h: h}
	h.fc.Open(&s.Stream, false)
	lc.beginStream(s)
	if !lean(lc) {
		h.extra.lean, lc.s, lc.deferral = nil, nil, nil
		return false
	}
	if d := lc.deferral; d != nil {
		lc.deferral = nil
		h.beginDeferral(d)
	} else if b := h.extra.lean; b != nil {
		h.extra.lean = nil
		h.awaitLeanBody(b)
	} else {
		lc.finish()
	}
	lc.s, lc.hd = nil, nil
	return true
}

// awaitLeanBody collects the body for a lean handler that called ReadBody.
func (h *h2Conn) awaitLeanBody(b *leanBody) {
	s := h.keepLean()
	hd := h.fc.Head()
	switch {
	case hd.Length > int64(b.limit):
		s.refuseLeanBody(b)
	case h.fc.Ends():
		s.lean = b
		s.collected()
	default:
		s.lean = b
		if hd.ExpectsContinue() {
			s.writeHead(http2.AppendStatus(nil, http.StatusContinue), false)
		}
		s.timeBody()
	}
}

// keepLean makes the stream of the last head one that lasts.
func (h *h2Conn) keepLean() *h2Stream {
	s := &h2Stream{h: h}
	s.Owner = s
	h.fc.Open(&s.Stream, true)
	return s
}

func (lc *LeanCtx) beginStream(s *h2Stream) {
	hd := s.h.fc.Head()
	lc.c, lc.p, lc.s, lc.hd, lc.passed = s.h.c, nil, s, hd, nil
	lc.text = append(lc.text[:0], hd.Method...)
	lc.method = len(lc.text)
	lc.text = append(lc.text, hd.Path...)
	lc.path, lc.query = lc.text[lc.method:len(lc.text):len(lc.text)], nil
	if i := bytes.IndexByte(lc.path, '?'); i >= 0 {
		lc.path, lc.query = lc.path[:i:i], lc.path[i+1:]
	}
	lc.toHead = hd.Method == http.MethodHead
	lc.note()
	lc.reset()
}

// streamHost is Host for a stream.
func (lc *LeanCtx) streamHost() []byte {
	if lc.hd != nil && lc.hd.Authority != "" {
		return lc.copied(lc.hd.Authority)
	}
	return lc.streamField("host")
}

// streamField is Header for a stream.
func (lc *LeanCtx) streamField(name string) []byte {
	if lc.hd == nil {
		return nil
	}
	for i := range lc.hd.Fields {
		if f := &lc.hd.Fields[i]; len(f.Name) == len(name) && strings.EqualFold(f.Name, name) {
			return lc.copied(f.Value)
		}
	}
	return nil
}

// copied returns a copy of s that is valid as long as the request. The decoder's table keeps s
// for later requests, so a handler must not be able to change it.
func (lc *LeanCtx) copied(s string) []byte {
	from := len(lc.text)
	lc.text = append(lc.text, s...)
	return lc.text[from:len(lc.text):len(lc.text)]
}

// collect appends to the body that a lean handler waits for.
func (s *h2Stream) collect(data []byte) {
	b := s.lean
	if len(b.data)+len(data) > b.limit {
		s.refuseLeanBody(b)
		return
	}
	b.data = appendLean(b.data, data)
}

func (s *h2Stream) refuseLeanBody(b *leanBody) {
	s.lean = nil
	s.answerText(http.StatusRequestEntityTooLarge, "413 Request Entity Too Large", b.toHead)
}

// collected calls the lean handler that waits for the body.
func (s *h2Stream) collected() {
	b := s.lean
	s.lean = nil
	lc := &s.h.c.st.lean
	lc.c, lc.p, lc.s, lc.hd, lc.path, lc.query = s.h.c, nil, s, nil, nil, nil
	lc.toHead, lc.record = b.toHead, b.record
	lc.reset()
	b.fn(lc, b.data)
	s.h.extra.lean = nil // ReadBody in fn has nothing to read
	lc.finish()
	giveLean(b.data)
	lc.s = nil
}

// finishStream sends the response of a lean handler on its stream.
func (lc *LeanCtx) finishStream() {
	s, st := lc.s, lc.c.st
	h := s.h
	b := http2.AppendStatus(lc.block[:0], lc.status)
	b = append(b, st.dateField()...)
	b = append(b, lc.fields...)
	b = append(b, lc.ctype...)
	body := lc.body
	if !bodyless(lc.status) {
		if len(lc.ctype) == 0 && len(body) > 0 {
			b = append(b, plainText...)
		}
		b = http2.AppendContentLength(b, int64(len(body)))
	}
	lc.block = b
	if bodyless(lc.status) || lc.toHead {
		body = nil
	}
	if s == &st.leanStream && (lc.c.output == outputHeld || len(body) > h.fc.Room(&s.Stream) || len(body) > copyLimit) {
		s = h.keepLean() // the answer may have to wait
	}
	s.writeHead(b, len(body) == 0)
	if len(body) == 0 {
		s.over = true
		s.answered()
	} else {
		s.over = true
		if s.lend(body); s.at == len(s.pending) {
			s.answered()
		} else if s.lent { // it is the stream's now
			s.pending, s.at = body, len(body)-len(s.pending)
			s.lent, s.leanBuf, lc.body = false, true, nil
		}
	}
	if lc.closes && !h.fc.Leaving() {
		h.leave()
	}
}
