//go:build spindle_python

package main

/*
#include "mailbox.h"
*/
import "C"

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/spindleloop/spindle/internal/deferred"
	"github.com/spindleloop/spindle/internal/http1"
	"github.com/spindleloop/spindle/ws"
)

// sendLimit is how many bytes may wait to be sent before the app has to wait.
const sendLimit = 64 << 10

// socket is a WebSocket of an app. A worker holds its request until the app has accepted
// or denied it; everything else happens on the loop.
type socket struct {
	r       *request
	verdict chan verdict // for the worker; the app decides once
	link    link         // nil before it is open
	early   []func()     // what the app has asked for before
	waiting int          // bytes in early
	held    bool         // the app waits until the client has caught up
	queued  int          // messages that the app has not taken
	ended   bool         // nothing more can be sent
	over    bool         // the app has returned
	deny    verdict      // while it is put together
	stream  bool         // on a stream of HTTP/2
}

// verdict is what the app does with a request for a WebSocket.
type verdict struct {
	status      int // 0 to accept
	header      http.Header
	subprotocol string
	body        []byte
}

// serveWebSocket passes a request for a WebSocket to the app, on a worker.
func (s *server) serveWebSocket(w http.ResponseWriter, req *http.Request) {
	so := &socket{verdict: make(chan verdict, 1), stream: isStreamSocket(req)}
	o := s.config.socketOptions()
	if fault := malformed(req, so, o); fault != nil {
		entry := s.log.beginRequest(s.clientOfRequest(req), req)
		_ = s.p.l.Post(func() {
			s.log.end(entry, fault.Status, 0)
			s.counters.count(fault.Status, 0)
		})
		s.config.addDefaults(w.Header())
		_ = ws.Upgrade(w, req, so, o) // sends the response that refuses it
		return
	}
	client := s.clientOfRequest(req)
	err := s.p.l.Post(func() { s.addSocket(so, req, client) })
	if err != nil {
		return
	}
	select {
	case v := <-so.verdict:
		if v.status != 0 {
			so.refuse(w, v)
			return
		}
		o.Header = v.header
		s.config.addDefaults(o.Header)
		if s.config.Date && o.Header.Get("Date") == "" {
			addInOrder(o.Header, "Date", s.p.l.Internal().Kernel().Wall().UTC().Format(http.TimeFormat))
		}
		if v.subprotocol != "" {
			o.Subprotocols = []string{v.subprotocol}
		}
		var err error
		if so.stream {
			err = so.acceptStream(w, req, o)
		} else {
			err = ws.Upgrade(w, req, so, o)
		}
		if err != nil {
			_ = s.p.l.Post(func() { so.closed(1006, "") })
		}
	case <-req.Context().Done():
		_ = s.p.l.Post(func() { so.closed(1006, "") })
	}
}

// malformed returns what is wrong with a handshake, so that the app need not see it, or nil.
func malformed(req *http.Request, so *socket, o ws.Options) *ws.HandshakeError {
	fault, _ := errors.AsType[*ws.HandshakeError](ws.Upgrade(noResponse{}, req, so, o))
	return fault
}

// noResponse drops a response. It is not of package web, so that ws.Upgrade only checks the request.
type noResponse struct{}

func (noResponse) Header() http.Header         { return make(http.Header) }
func (noResponse) Write(p []byte) (int, error) { return len(p), nil }
func (noResponse) WriteHeader(int)             {}

// refuse answers with the app's response.
func (so *socket) refuse(w http.ResponseWriter, v verdict) {
	for name, values := range v.header {
		w.Header()[name] = values
	}
	so.r.s.config.addDefaults(w.Header())
	if w.Header().Get("Content-Type") == "" {
		w.Header()["Content-Type"] = nil // the app has not said what it is
	}
	w.WriteHeader(v.status)
	_, _ = w.Write(v.body)
	_ = so.r.s.p.l.Post(func() { so.closed(1006, "") })
}

func (c *config) socketOptions() ws.Options {
	o := ws.Options{
		CheckOrigin:  func(*http.Request) bool { return true }, // the app's business
		MessageLimit: c.WSMaxSize,
		UnsentLimit:  1 << 30, // the app waits
		PingInterval: seconds(c.WSPingInterval),
		PingTimeout:  seconds(c.WSPingTimeout),
	}
	if c.WSCompress {
		o.CompressFrom = 256
	}
	return o
}

// addSocket adds the SPINDLE_REQUEST record of a WebSocket, on the loop.
func (s *server) addSocket(so *socket, req *http.Request, client string) {
	r := &request{s: s, ws: so, log: s.log.beginRequest(client, req)}
	so.r = r
	r.slot = s.requests.add(r)
	s.needHeld()
	flags := uint16(C.SPINDLE_WEBSOCKET | C.SPINDLE_COMPLETE)
	if s.config.secure() {
		flags |= C.SPINDLE_SECURE
	}
	if so.stream {
		flags |= C.SPINDLE_HTTP2
	}
	target := req.RequestURI
	if !strings.HasPrefix(target, "/") {
		target = req.URL.RequestURI() // it was an absolute URL
	}
	path, query, _ := strings.Cut(target, "?")
	fields, _ := req.Context().Value(deferred.Passed).([][2]string)
	s.addHead(r.slot, flags, head{method: req.Method, path: path, query: query, client: client}, fields)
}

// take does what the app has asked for.
func (so *socket) take(rec *C.SpindleRecord, payload []byte) {
	switch rec.kind {
	case C.SPINDLE_ACCEPT:
		h, first := fieldsOf(int(rec.n), payload)
		so.decide(verdict{header: h, subprotocol: first})
	case C.SPINDLE_DENY:
		h, _ := fieldsOf(int(rec.n), payload)
		so.deny = verdict{status: int(rec.flags), header: h}
	case C.SPINDLE_DENY_BODY:
		so.deny.body = append(so.deny.body, payload...)
	case C.SPINDLE_DENY_END:
		so.decide(so.deny)
	default:
		if so.link == nil && !so.ended {
			kind, n, kept := rec.kind, rec.n, slices.Clone(payload)
			so.early = append(so.early, func() { so.act(uint16(kind), int(n), kept) })
			if so.waiting += len(kept); so.waiting > sendLimit {
				so.hold()
			}
			return
		}
		so.act(uint16(rec.kind), int(rec.n), payload)
	}
}

// decide passes the app's decision to the worker, and logs it.
func (so *socket) decide(v verdict) {
	accepted := http.StatusSwitchingProtocols
	if so.stream {
		accepted = http.StatusOK
	}
	so.logHandshake(cmp.Or(v.status, accepted), int64(len(v.body)))
	so.verdict <- v
}

// logHandshake logs the handshake once. Status 0 means that the client was gone before.
func (so *socket) logHandshake(status int, bytes int64) {
	so.r.s.log.end(so.r.log, status, bytes)
	so.r.log = nil
}

// act does what needs an open socket.
func (so *socket) act(kind uint16, n int, payload []byte) {
	if so.ended {
		return
	}
	var err error
	switch kind {
	case C.SPINDLE_SEND_TEXT:
		err = so.link.Send(ws.Text, payload)
	case C.SPINDLE_SEND_BINARY:
		err = so.link.Send(ws.Binary, payload)
	case C.SPINDLE_CLOSE:
		if err = so.link.Close(ws.Code(n), shortened(payload)); err != nil {
			err = so.link.Close(ws.InternalError, "")
		}
	}
	// The transport reports PauseWriting only later, and an app may send much until then.
	if err == nil && !so.held && so.link.unsent() > sendLimit {
		so.hold()
		so.link.whenSent(so.caughtUp)
	}
}

// shortened returns as much of a reason as a Close can have, in whole characters.
func shortened(reason []byte) string {
	const limit = 123
	if len(reason) <= limit {
		return string(reason)
	}
	n := limit
	for n > 0 && !utf8.RuneStart(reason[n]) {
		n--
	}
	return string(reason[:n])
}

// hold makes the app wait before it sends more.
func (so *socket) hold() {
	so.held = true
	so.r.s.setHeld(so.r.slot, true)
}

// caughtUp lets the app go on.
func (so *socket) caughtUp() {
	if so.held && !so.over && !so.ended {
		so.held = false
		so.r.Writable()
	}
}

// finish ends the request: the app has returned.
func (so *socket) finish() {
	so.over = true
	if so.ended {
		so.r.s.release(so.r)
	}
}

// closed ends the socket, on the loop.
func (so *socket) closed(code int, reason string) {
	if so.ended {
		return
	}
	so.ended, so.early = true, nil
	so.logHandshake(0, 0)
	if so.over {
		so.r.s.release(so.r)
		return
	}
	rec, b := so.r.s.in.add(C.SPINDLE_CLOSED, 0, so.r.slot, len(reason))
	rec.n = C.uint32_t(code)
	copy(b, reason)
}

// OnOpen is called when the client has its answer.
func (so *socket) OnOpen(s *ws.Socket) { so.opened(wholeLink{s}) }

func (so *socket) opened(l link) {
	so.link = l
	so.r.s.counters.sockets.Add(1)
	early := so.early
	so.early, so.waiting = nil, 0
	so.caughtUp()
	for _, do := range early {
		do()
	}
}

// OnMessage passes a message to Python.
func (so *socket) OnMessage(_ *ws.Socket, kind ws.Kind, message []byte) { so.message(kind, message) }

func (so *socket) message(kind ws.Kind, message []byte) {
	if so.over {
		return
	}
	record := uint16(C.SPINDLE_BINARY)
	if kind == ws.Text {
		record = C.SPINDLE_TEXT
	}
	_, b := so.r.s.in.add(record, 0, so.r.slot, len(message))
	copy(b, message)
	so.r.unread += len(message) + 64
	so.queued++
	if (so.r.unread >= bodyLimit || so.queued == so.r.s.config.WSMaxQueue) && !so.r.paused {
		so.r.paused = true
		so.link.PauseReading()
	}
}

// consumed notes that the app has taken a message of n bytes.
func (so *socket) consumed(n int) {
	r := so.r
	r.unread -= n + 64
	so.queued--
	most := r.s.config.WSMaxQueue
	if r.paused && r.unread < bodyLimit/2 && (most == 0 || so.queued <= most/2) && !so.ended {
		r.paused = false
		so.link.ResumeReading()
	}
}

// OnResumeWriting is called when the client has caught up.
func (so *socket) OnResumeWriting(*ws.Socket) {
	so.caughtUp()
}

// OnClose reports the end to Python.
func (so *socket) OnClose(_ *ws.Socket, err error) {
	code, reason := int(ws.CodeOf(err)), ""
	if e, ok := errors.AsType[*ws.CloseError](err); ok {
		reason = e.Reason
	}
	so.closed(code, reason)
}

// fieldsOf reads n fields, and keeps their order. The first value without a name is returned apart: the
// subprotocol.
func fieldsOf(n int, b []byte) (h http.Header, unnamed string) {
	h = make(http.Header)
	if n == 0 {
		return h, ""
	}
	sizes := unsafe.Slice((*C.SpindleField)(unsafe.Pointer(&b[0])), n)
	b = b[n*fieldSize:]
	for _, f := range sizes {
		name, value := string(b[:f.name]), string(b[f.name:f.name+f.value])
		b = b[f.name+f.value:]
		if name == "" {
			unnamed = value
			continue
		}
		addInOrder(h, name, value)
	}
	return h, unnamed
}

// addInOrder adds a field that is written after those that h has.
func addInOrder(h http.Header, name, value string) {
	h.Add(name, value)
	h[http1.FieldOrder] = append(h[http1.FieldOrder], http.CanonicalHeaderKey(name))
}
