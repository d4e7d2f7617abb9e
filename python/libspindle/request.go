//go:build spindle_python

package main

/*
#include "mailbox.h"
*/
import "C"

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"github.com/spindleloop/spindle/internal/deferred"
	"github.com/spindleloop/spindle/internal/http1"
	"github.com/spindleloop/spindle/web"
)

// bodyLimit is how many bytes of a body are passed to Python before the app takes them.
const bodyLimit = 64 << 10

// request is a request that an app answers. Its methods are those of a
// deferred.Handler: they put records into the inbox.
type request struct {
	s      *server
	slot   uint32
	answer deferred.Answer
	stream deferred.Stream // answer, on HTTP/2; nil on HTTP/1.1
	bodied bool            // a body was announced
	paused bool            // reading waits for the app
	unread int             // bytes that the app has not taken
	log    *logged
	ws     *socket // not nil if the request opens a WebSocket
}

// lean takes every request but those that Go answers itself.
func (s *server) lean(lc *web.LeanCtx) bool {
	if s.ownPath(lc.Path()) {
		return false
	}
	r := &request{s: s}
	r.answer = lc.Defer(r)
	p := r.answer.Head()
	if p == nil {
		r.stream = r.answer.(deferred.Stream)
		if hd := r.stream.Header(); hd.Method == http.MethodConnect {
			if onStream(hd) {
				r.answer.Pass(appendFields(nil, hd))
			}
			return false
		}
		s.addStream(r, lc)
		return true
	}
	if string(p.Method()) == http.MethodConnect {
		return false
	}
	if opensWebSocket(p) {
		r.answer.Pass(fieldsInOrder(p)) // the header of Go's request has no order
		return false
	}
	s.begin(r)
	r.bodied = p.Length() != 0
	flags := s.flags(p)
	if r.answer.Persists() {
		flags |= C.SPINDLE_PERSISTS
	}
	client := s.clientOf(r.answer.Remote(), lc.Conn().LocalAddr)
	if s.log != nil {
		r.log = s.log.begin(client, p)
	}
	s.addRequest(flags, r.slot, p, lc.Path(), lc.Query(), client)
	return true
}

// begin gives the request a slot.
func (s *server) begin(r *request) {
	r.slot = s.requests.add(r)
	s.needHeld()
	s.counters.active.Add(1)
}

// refused notes a request that was answered without the app.
func (s *server) refused(r web.Refusal) {
	s.counters.count(r.Status, 0)
	if s.log != nil {
		target := r.Target
		if len(target) > 1024 { // it may be what is too long
			target = target[:1024] + "..."
		}
		client := s.clientOf(r.Conn.RemoteAddr().String(), r.Conn.LocalAddr)
		s.log.end(s.log.entry(client, nil, r.Method, target, ""), r.Status, 0)
	}
}

// opensWebSocket reports whether the request opens a WebSocket.
func opensWebSocket(p *http1.RequestParser) bool {
	protocols := p.Upgrade()
	return protocols != nil && string(p.Method()) == "GET" && http1.HasToken([]string{string(protocols)}, "websocket")
}

func equalFold(b []byte, lower string) bool {
	for i, c := range b {
		if c|0x20 != lower[i] {
			return false
		}
	}
	return true
}

func (s *server) flags(p *http1.RequestParser) (flags uint16) {
	if p.Version() == http1.HTTP10 {
		flags |= C.SPINDLE_HTTP10
	}
	if p.ExpectsContinue() {
		flags |= C.SPINDLE_EXPECTS
	}
	if p.Length() == 0 {
		flags |= C.SPINDLE_COMPLETE
	}
	if p.KeepAlive() {
		flags |= C.SPINDLE_KEEPALIVE
	}
	if s.config.secure() {
		flags |= C.SPINDLE_SECURE
	}
	if takesTrailers(p) {
		flags |= C.SPINDLE_TRAILERS
	}
	return flags
}

func takesTrailers(p *http1.RequestParser) bool {
	for i := range p.FieldCount() {
		if name, value := p.Field(i); len(name) == len("te") && equalFold(name, "te") && http1.HasToken([]string{string(value)}, "trailers") {
			return true
		}
	}
	return false
}

// addRequest adds a SPINDLE_REQUEST record.
func (s *server) addRequest(flags uint16, slot uint32, p *http1.RequestParser, path, query []byte, remote string) {
	host, port := splitRemote(remote)
	method := p.Method()
	fields := p.FieldCount()
	size := headSize + fields*fieldSize + len(method) + len(path) + len(query) + len(host)
	for i := range fields {
		name, value := field(p, i)
		size += len(name) + len(value)
	}
	r, b := s.in.add(C.SPINDLE_REQUEST, flags, slot, size)
	r.n = C.uint32_t(fields)
	*(*C.SpindleHead)(unsafe.Pointer(&b[0])) = C.SpindleHead{
		length: C.int64_t(p.Length()), method: C.uint32_t(len(method)), path: C.uint32_t(len(path)),
		query: C.uint32_t(len(query)), remote: C.uint32_t(len(host)), port: C.uint32_t(port),
	}
	var sizes []C.SpindleField
	if fields > 0 {
		sizes = unsafe.Slice((*C.SpindleField)(unsafe.Pointer(&b[headSize])), fields)
	}
	b = b[headSize+fields*fieldSize:]
	b = b[copy(b, method):]
	b = b[copy(b, path):]
	b = b[copy(b, query):]
	b = b[copy(b, host):]
	for i := range fields {
		name, value := field(p, i)
		sizes[i] = C.SpindleField{name: C.uint32_t(len(name)), value: C.uint32_t(len(value))}
		b = b[copy(b, name):]
		b = b[copy(b, value):]
	}
}

// fieldsInOrder returns the fields of the request as the client has sent them.
func fieldsInOrder(p *http1.RequestParser) [][2]string {
	fields := make([][2]string, p.FieldCount())
	for i := range fields {
		name, value := field(p, i)
		fields[i] = [2]string{string(name), string(value)}
	}
	return fields
}

// field returns a field of the request. The host of an absolute target takes the place of
// the field's.
func field(p *http1.RequestParser, i int) (name, value []byte) {
	name, value = p.Field(i)
	if p.Absolute() && len(name) == len("host") && equalFold(name, "host") {
		value = p.Host()
	}
	return name, value
}

// splitRemote splits an address into host and port. An empty one has neither.
func splitRemote(remote string) (host string, port int) {
	for i := len(remote) - 1; i >= 0; i-- {
		if remote[i] == ':' {
			port, err := strconv.Atoi(remote[i+1:])
			if err != nil {
				return "", 0
			}
			host = remote[:i]
			if len(host) > 1 && host[0] == '[' {
				host = host[1 : len(host)-1]
			}
			return host, port
		}
	}
	return "", 0
}

// Data passes a piece of the body to Python.
func (r *request) Data(p []byte) (full bool) {
	_, b := r.s.in.add(C.SPINDLE_BODY, 0, r.slot, len(p))
	copy(b, p)
	r.unread += len(p)
	r.paused = r.unread >= bodyLimit
	return r.paused
}

// End reports the end of the request, unless its head said so.
func (r *request) End() {
	if r.bodied {
		r.s.in.add(C.SPINDLE_END, 0, r.slot, 0)
	}
}

// Failed reports that the body will not come. If the client is to blame, Python is told the status of
// the answer.
func (r *request) Failed(err error) { r.gone(statusOf(err)) }

// Gone reports that the client has disconnected.
func (r *request) Gone(error) { r.gone(0) }

// Lost reports that nothing more can be sent.
func (r *request) Lost() { r.s.in.add(C.SPINDLE_LOST, 0, r.slot, 0) }

func (r *request) gone(status int) {
	rec, _ := r.s.in.add(C.SPINDLE_GONE, 0, r.slot, 0)
	rec.n = C.uint32_t(status)
}

// statusOf returns the status for a request with a body that failed, 0 if the client has left.
func statusOf(err error) int {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return http.StatusRequestEntityTooLarge
	}
	if fault, ok := errors.AsType[*http1.Error](err); ok && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fault.Status
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return http.StatusRequestTimeout
	}
	return 0
}

// Writable reports that the client has caught up.
func (r *request) Writable() {
	r.s.setHeld(r.slot, false)
	r.s.in.add(C.SPINDLE_WRITABLE, 0, r.slot, 0)
}

// consumed notes that the app has taken n bytes of the body.
func (r *request) consumed(n int) {
	if r.stream != nil {
		r.stream.Consumed(n)
		return
	}
	r.unread -= n
	if r.paused && r.unread < bodyLimit/2 {
		r.paused = false
		r.answer.Resume()
	}
}

func (r *request) write(pieces [][]byte) {
	if r.answer.Write(pieces...) {
		r.s.setHeld(r.slot, true)
	}
}

// sendFile sends the first n bytes of a file: its size when Python wrote the head. If it is
// no longer what it was, the response cannot be completed.
func (r *request) sendFile(path string, n int64) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not block the loop
	if err != nil {
		r.answer.Abort()
		return
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() < n {
		_ = f.Close()
		r.answer.Abort()
		return
	}
	r.answer.SendFile(f, 0, n, func(error) { _ = f.Close() })
}

// finish ends the request after its response. On a stream, the last pieces go with its end.
func (r *request) finish(status int, bytes int64, closes bool, last [][]byte) {
	r.s.log.end(r.log, status, bytes)
	r.s.counters.count(status, bytes)
	r.s.counters.active.Add(-1)
	r.s.release(r)
	if r.stream != nil {
		r.stream.FinishWith(closes, last...)
		return
	}
	r.answer.Finish(closes)
}

func (r *request) abort() {
	r.s.log.end(r.log, 0, 0)
	r.s.counters.count(0, 0)
	r.s.counters.active.Add(-1)
	r.s.release(r)
	r.answer.Abort()
}
