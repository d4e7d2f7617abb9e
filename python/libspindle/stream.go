//go:build spindle_python

package main

/*
#include "mailbox.h"
*/
import "C"

import (
	"bytes"
	"unsafe"

	"github.com/spindleloop/spindle/internal/http2"
	"github.com/spindleloop/spindle/web"
)

// addStream adds the SPINDLE_REQUEST record of a request on a stream of HTTP/2.
func (s *server) addStream(r *request, lc *web.LeanCtx) {
	hd := r.stream.Header()
	s.begin(r)
	flags := uint16(C.SPINDLE_HTTP2 | C.SPINDLE_PERSISTS | C.SPINDLE_KEEPALIVE | C.SPINDLE_TRAILERS)
	if hd.ExpectsContinue() {
		flags |= C.SPINDLE_EXPECTS
	}
	if r.stream.Ends() {
		flags |= C.SPINDLE_COMPLETE
	}
	if s.config.secure() {
		flags |= C.SPINDLE_SECURE
	}
	r.bodied = !r.stream.Ends()
	client := s.clientOf(r.answer.Remote(), lc.Conn().LocalAddr)
	s.fields = appendFields(s.fields[:0], hd)
	if s.log != nil {
		r.log = s.log.beginStream(client, hd)
	}
	h := head{method: hd.Method, path: string(lc.Path()), query: string(lc.Query()), client: client}
	if r.bodied {
		h.length = hd.Length
	}
	s.addHead(r.slot, flags, h, s.fields)
	clear(s.fields)
}

// appendFields appends the fields of a request on a stream as an app sees them: the first is the
// authority, as ASGI says, and fields Cookie, which clients may split, are one.
func appendFields(fields [][2]string, hd *http2.Header) [][2]string {
	if hd.Authority != "" {
		fields = append(fields, [2]string{"host", hd.Authority})
	}
	cookie := hd.Cookies() > 1
	for i := range hd.Fields {
		f := &hd.Fields[i]
		switch {
		case f.Name == "host" && hd.Authority != "":
		case f.Name == "cookie" && hd.Cookies() > 1:
			if cookie {
				fields = append(fields, [2]string{"cookie", hd.Cookie()})
				cookie = false
			}
		default:
			fields = append(fields, [2]string{f.Name, f.Value})
		}
	}
	return fields
}

// head is what a SPINDLE_REQUEST record has besides the fields.
type head struct {
	method, path, query, client string
	length                      int64 // of the body; -1 if it is not known
}

// addHead adds a SPINDLE_REQUEST record.
func (s *server) addHead(slot uint32, flags uint16, h head, fields [][2]string) {
	host, port := splitRemote(h.client)
	size := headSize + len(fields)*fieldSize + len(h.method) + len(h.path) + len(h.query) + len(host)
	for i := range fields {
		size += len(fields[i][0]) + len(fields[i][1])
	}
	rec, b := s.in.add(C.SPINDLE_REQUEST, flags, slot, size)
	rec.n = C.uint32_t(len(fields))
	*(*C.SpindleHead)(unsafe.Pointer(&b[0])) = C.SpindleHead{
		length: C.int64_t(h.length), method: C.uint32_t(len(h.method)), path: C.uint32_t(len(h.path)),
		query: C.uint32_t(len(h.query)), remote: C.uint32_t(len(host)), port: C.uint32_t(port),
	}
	var sizes []C.SpindleField
	if len(fields) > 0 {
		sizes = unsafe.Slice((*C.SpindleField)(unsafe.Pointer(&b[headSize])), len(fields))
	}
	b = b[headSize+len(fields)*fieldSize:]
	b = b[copy(b, h.method):]
	b = b[copy(b, h.path):]
	b = b[copy(b, h.query):]
	b = b[copy(b, host):]
	for i := range fields {
		name, value := fields[i][0], fields[i][1]
		sizes[i] = C.SpindleField{name: C.uint32_t(len(name)), value: C.uint32_t(len(value))}
		b = b[copy(b, name):]
		b = b[copy(b, value):]
	}
}

// appendLines encodes fields that C has written as lines. C has checked them, so none is refused.
func appendLines(block, lines []byte) []byte {
	for len(lines) > 0 {
		colon := bytes.IndexByte(lines, ':')
		end := colon + bytes.IndexByte(lines[colon:], '\r')
		block, _ = http2.AppendField(block, text(lines[:colon]), text(lines[colon+2:end]))
		lines = lines[end+len("\r\n"):]
	}
	return block
}

// text returns b as a string for the time of a call.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
