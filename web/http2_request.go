package web

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/spindleloop/spindle/internal/http1"
	"github.com/spindleloop/spindle/internal/http2"
)

// head handles a request's head.
func (h *h2Conn) head() {
	c, st, hd := h.c, h.c.st, h.fc.Head()
	if st.observer != nil {
		st.observer.moved(c, http.StateActive)
	}
	c.requests++
	if (c.reachedLimit() || st.sv.draining.Load()) && !h.fc.Leaving() {
		h.leave() // after this request, and those that are on their way
	}
	if int(h.running) >= st.maxStreams { // their streams were reset, and they run
		if err := h.fc.Refuse(); err != nil {
			h.fail(err)
		}
		return
	}
	server := st.sv.server
	switch limit := server.MaxBodyBytes; {
	case hd.TooLarge:
		h.refuse(http.StatusRequestHeaderFieldsTooLarge, http1.ErrHeaderTooLarge)
		return
	case len(hd.Method)+len(hd.Path) > st.maxTarget:
		h.refuse(http.StatusRequestURITooLong, http1.ErrRequestLineTooLong)
		return
	case limit > 0 && hd.Length > limit:
		h.refuse(http.StatusRequestEntityTooLarge, http1.ErrBodyTooLarge)
		return
	}
	if server.Lean != nil && h.answersLean(server.Lean) {
		return
	}
	x, ok := h.newExchange()
	if !ok {
		h.refuse(http.StatusBadRequest, http1.ErrTarget)
		return
	}
	h.running++
	if h.fc.Ends() {
		x.start()
	} else {
		st.begun = append(st.begun, x)
	}
}

// startNow starts the handler of a request that has come as a whole.
func (h *h2Conn) startNow(x *exchange) {
	begun := h.c.st.begun
	for i, o := range begun {
		if o == x {
			begun[i] = nil
			x.start()
			return
		}
	}
}

// startBegun starts the handlers of requests that have come in part.
func (h *h2Conn) startBegun() {
	st := h.c.st
	for i, x := range st.begun {
		if st.begun[i] = nil; x != nil {
			x.w.s.timeBody()
			x.start()
		}
	}
	st.begun = st.begun[:0]
}

// dropBegun drops the requests that have no handler yet, with their connection.
func (h *h2Conn) dropBegun() {
	st := h.c.st
	if !h.is(h2Parsing) {
		return // those of st.begun are of another connection, or there are none
	}
	for i, x := range st.begun {
		if st.begun[i] = nil; x != nil {
			x.w.s.unstarted()
		}
	}
	st.begun = st.begun[:0]
}

// unstarted ends a request before its handler has begun.
func (s *h2Stream) unstarted() {
	s.h.running--
	x := s.x
	s.x = nil
	x.st.giveDraft(x.w.draft)
	x.w.draft = nil
}

// newExchange is that of HTTP/1.1 for the head of a stream.
func (h *h2Conn) newExchange() (*exchange, bool) {
	c, st, hd := h.c, h.c.st, h.fc.Head()
	whole := &streamExchange{}
	x, s := &whole.exchange, &whole.stream
	x.c, x.st = c, st
	x.method, x.target, x.remote = hd.Method, hd.Path, c.remoteAddr()
	x.persists = true
	if hd.Method == "CONNECT" && hd.Protocol == "" {
		x.target = hd.Authority
	}
	header := make(http.Header, len(hd.Fields))
	addFields(header, hd)
	if hd.Protocol != "" {
		header[":protocol"] = []string{hd.Protocol} // as in net/http
	}
	host := hd.Authority
	if hosts := header["Host"]; host == "" && len(hosts) > 0 {
		host = hosts[0]
	}
	delete(header, "Host")
	x.ctx.x, x.ctx.base = x, c.baseContext()
	if len(header) > 0 {
		x.ctx.base = withTrace(x.ctx.base, header)
	}
	x.takePassed()
	if h.fc.Ends() {
		delete(header, "Trailer") // it announces nothing
	} else {
		x.body = newStreamBody(x, s, hd, header)
	}
	x.w.init(x)
	x.w.s, x.w.date = s, st.dateField()
	x.w.since = st.l.Internal().TurnTime()
	if st.log.to != nil || st.meter != nil {
		x.w.since, x.w.host = st.l.Time(), host
	}
	x.describe(header, host)
	x.req.Proto, x.req.ProtoMajor, x.req.ProtoMinor = "HTTP/2.0", 2, 0
	if x.body != nil {
		x.req.TransferEncoding, x.req.Trailer = nil, x.body.trailers
	}
	if !setURL(&x.url, x.method, x.target) {
		st.giveDraft(x.w.draft)
		x.w.draft = nil
		return nil, false
	}
	s.h, s.x, s.Owner = h, x, s
	h.fc.Open(&s.Stream, true)
	s.Urgency, s.Incremental = hd.Priority()
	return x, true
}

// newStreamBody is newBody for a stream. Trailers may come without a declaration.
func newStreamBody(x *exchange, s *h2Stream, hd *http2.Header, header http.Header) *body {
	b := &body{x: x, s: s, length: hd.Length, trailers: make(http.Header)}
	if hd.ExpectsContinue() {
		b.awaits.Store(continueAwaited)
		delete(header, "Expect")
	}
	for _, value := range header["Trailer"] {
		for name := range strings.SplitSeq(value, ",") {
			if name = http.CanonicalHeaderKey(strings.Trim(name, " \t")); http1.MayTrail(name) {
				b.trailers[name] = nil
			}
		}
	}
	delete(header, "Trailer")
	return b
}

// addFields adds the fields to h. Cookies are joined, because clients split them.
func addFields(h http.Header, hd *http2.Header) {
	values := make([]string, len(hd.Fields))
	for i := range hd.Fields {
		f := &hd.Fields[i]
		key := http1.Canonical(f.Name)
		if known := h[key]; known == nil {
			values[i] = f.Value
			h[key] = values[i : i+1 : i+1]
		} else if key == "Cookie" {
			known[0] += "; " + f.Value
		} else {
			h[key] = append(known, f.Value)
		}
	}
}

// refuse answers a request that cannot be served.
func (h *h2Conn) refuse(status int, why error) {
	c, hd := h.c, h.fc.Head()
	if refused := c.st.sv.server.Refused; refused != nil {
		refused(Refusal{Conn: c.tc, Method: hd.Method, Target: hd.Path, Status: status})
	}
	text := strconv.Itoa(status) + " " + http.StatusText(status) + ": " + why.Error()
	s := &h2Stream{h: h}
	s.Owner = s
	h.fc.Open(&s.Stream, true)
	s.answerText(status, text, hd.Method == "HEAD")
}

// answerText answers with a short text.
func (s *h2Stream) answerText(status int, text string, toHead bool) {
	b := http2.AppendStatus(nil, status)
	b = append(b, s.h.c.st.dateField()...)
	b = append(b, plainText...)
	b = http2.AppendContentLength(b, int64(len(text)))
	s.writeHead(b, toHead)
	if toHead {
		text = ""
	}
	s.finish([]byte(text), nil)
}

// plainText is the field Content-Type of a plain text.
var plainText = encodedField("Content-Type", "text/plain; charset=utf-8")

func encodedField(name, value string) string {
	b, err := http2.AppendField(nil, name, value)
	if err != nil {
		panic(err)
	}
	return string(b)
}
