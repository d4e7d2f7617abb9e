//go:build spindle_python

package main

/*
#include <stdlib.h>
#include <string.h>
#include "mailbox.h"
*/
import "C"

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"syscall"
	"unsafe"

	"github.com/spindleloop/spindle/internal/http2"
	"github.com/spindleloop/spindle/web"
)

// server is the Go half of the HTTP server: it accepts, parses and sends. Everything but
// its configuration belongs to the thread of the Python loop.
type server struct {
	p        *pyLoop
	config   config
	web      web.Server
	services []*web.Service
	unix     int // services on Unix sockets
	drained  int // services that have ended
	box      *C.SpindleMailbox
	in       inbox
	requests slots[*request]
	pieces   [][]byte    // of a response, while records are taken
	sender   *request    // the request that they answer
	fields   [][2]string // of a request on a stream
	block    []byte      // the encoded head of a response on a stream
	held     int         // the size of box.held
	log      *accessLog
	counters counters
}

// SpindleServe starts a server on a loop. Its configuration is JSON. It returns the
// server's mailbox, which exists as long as the loop, or nil and writes an error.
//
//export SpindleServe
func SpindleServe(id C.int, text *C.char, size C.int, message *C.char, capacity C.int) *C.SpindleMailbox {
	defer guardText(message, capacity)
	p := at(id)
	p.poller.Unshare() // the server's watches are edge-triggered; C does not poll beside a server
	s, err := newServer(p, C.GoBytes(unsafe.Pointer(text), size))
	if err != nil {
		p.poller.Share()
		write(message, capacity, err.Error())
		return nil
	}
	p.server = s
	return s.box
}

// SpindleCheck checks a configuration before anything is started: it loads the certificates. It
// returns 0, or -1 and writes an error.
//
//export SpindleCheck
func SpindleCheck(text *C.char, size C.int, message *C.char, capacity C.int) (result C.int) {
	result = -1
	defer guardText(message, capacity)
	var c config
	err := json.Unmarshal(C.GoBytes(unsafe.Pointer(text), size), &c)
	if err == nil && c.secure() {
		_, err = c.tls(slog.New(slog.DiscardHandler)) // newServer warns
	}
	if err != nil {
		write(message, capacity, err.Error())
		return -1
	}
	return 0
}

func newServer(p *pyLoop, text []byte) (*server, error) {
	if p.server != nil {
		return nil, errors.New("spindle: the loop has a server already")
	}
	s := &server{p: p}
	if err := json.Unmarshal(text, &s.config); err != nil {
		return nil, fmt.Errorf("spindle: configuration of the server: %w", err)
	}
	if err := s.config.apply(s); err != nil {
		return nil, err
	}
	s.box = (*C.SpindleMailbox)(C.calloc(1, C.size_t(unsafe.Sizeof(C.SpindleMailbox{}))))
	s.in = inbox{&s.box.in}
	s.in.grow(0)
	s.web.Lean = s.lean
	for _, fd := range s.config.FDs {
		if err := s.listen(fd); err != nil {
			s.abort() // the loop goes on, without this server
			s.close()
			return nil, err
		}
	}
	return s, nil
}

// listen serves the connections of a socket that listens. The descriptor stays the
// caller's.
func (s *server) listen(fd int) error {
	own, err := syscall.Dup(fd)
	if err != nil {
		return fmt.Errorf("spindle: descriptor %d: %w", fd, err)
	}
	f := os.NewFile(uintptr(own), "listener")
	defer f.Close()
	ln, err := net.FileListener(f)
	if err != nil {
		return fmt.Errorf("spindle: descriptor %d cannot be listened on: %w", fd, err)
	}
	if unix, ok := ln.(*net.UnixListener); ok {
		unix.SetUnlinkOnClose(false)
	}
	sv, err := s.web.WrapListener(s.p.l, ln)
	if err != nil {
		_ = ln.Close()
		return err
	}
	s.services = append(s.services, sv)
	if ln.Addr().Network() == "unix" {
		s.unix++
	}
	return nil
}

// clientOf returns the address of a client, which is remote unless it came to a Unix socket.
// There it is empty: a client may give its end any name, also the address of a trusted proxy.
func (s *server) clientOf(remote string, local func() net.Addr) string {
	if s.unix > 0 && (s.unix == len(s.services) || local().Network() == "unix") {
		return ""
	}
	return remote
}

// clientOfRequest is clientOf for a request that the app does not get as one by HTTP. Any
// goroutine may call it.
func (s *server) clientOfRequest(req *http.Request) string {
	return s.clientOf(req.RemoteAddr, func() net.Addr { return req.Context().Value(http.LocalAddrContextKey).(net.Addr) })
}

// release frees the request's slot. Nothing more is reported about it.
func (s *server) release(r *request) {
	s.setHeld(r.slot, false)
	s.requests.remove(r.slot)
}

// needHeld makes box.held as large as the table of requests.
func (s *server) needHeld() {
	if n := len(s.requests.values); n > s.held {
		size := max(2*s.held, n, 256)
		held := (*C.uint8_t)(C.realloc(unsafe.Pointer(s.box.held), C.size_t(size)))
		if held == nil {
			panic("libspindle: out of memory")
		}
		C.memset(unsafe.Add(unsafe.Pointer(held), s.held), 0, C.size_t(size-s.held))
		s.box.held, s.held = held, size
	}
}

func (s *server) setHeld(slot uint32, held bool) {
	var v C.uint8_t
	if held {
		v = 1
	}
	*(*C.uint8_t)(unsafe.Add(unsafe.Pointer(s.box.held), slot)) = v
}

// take does what Python has asked for since the last time. It reports whether something
// is in the inbox.
func (s *server) take() bool {
	if s.box.out.len > 0 {
		records(&s.box.out, s.takeOne)
		s.send()
		shrink(&s.box.out)
	}
	return s.box.in.len > 0
}

func (s *server) takeOne(rec *C.SpindleRecord, payload []byte) {
	r := s.requests.values[rec.slot]
	if r == nil {
		return // the request has ended
	}
	switch rec.kind {
	case C.SPINDLE_ANSWER:
		s.collect(r, payload)
		return
	case C.SPINDLE_PIECE:
		piece := (*C.SpindlePiece)(unsafe.Pointer(&payload[0]))
		s.collect(r, unsafe.Slice((*byte)(unsafe.Pointer(piece.data)), piece.len))
		return
	}
	var last [][]byte
	if s.sender == r && r.stream != nil && rec.kind == C.SPINDLE_FINISH {
		last, s.sender = s.pieces, nil
	} else {
		s.send()
	}
	switch rec.kind {
	case C.SPINDLE_FINISH:
		if r.ws != nil {
			r.ws.finish()
			return
		}
		end := (*C.SpindleEnd)(unsafe.Pointer(&payload[0]))
		r.finish(int(rec.n), int64(end.bytes), rec.flags&C.SPINDLE_CLOSES != 0, last)
		s.forgetPieces()
	case C.SPINDLE_HEAD:
		s.block = appendLines(http2.AppendStatus(s.block[:0], int(rec.n)), payload)
		r.stream.Respond(s.block, rec.flags&C.SPINDLE_ENDS != 0)
	case C.SPINDLE_TRAIL:
		s.block = appendLines(s.block[:0], payload)
		r.stream.Trail(s.block)
	case C.SPINDLE_ABORT:
		r.abort()
	case C.SPINDLE_CONTINUE:
		r.answer.Continue()
	case C.SPINDLE_CONSUMED:
		if r.ws != nil {
			r.ws.consumed(int(rec.n))
			return
		}
		r.consumed(int(rec.n))
	case C.SPINDLE_FILE:
		file := (*C.SpindleFile)(unsafe.Pointer(&payload[0]))
		r.sendFile(string(payload[unsafe.Sizeof(*file):]), int64(file.size))
	default:
		r.ws.take(rec, payload)
	}
}

// collect adds a piece of a response to those that are sent together.
func (s *server) collect(r *request, piece []byte) {
	if s.sender != r {
		s.send()
		s.sender = r
	}
	s.pieces = append(s.pieces, piece)
}

// send sends the pieces of a response that were collected.
func (s *server) send() {
	if s.sender != nil {
		s.sender.write(s.pieces)
		s.sender = nil
		s.forgetPieces()
	}
}

func (s *server) forgetPieces() {
	clear(s.pieces)
	s.pieces = s.pieces[:0]
}

// SpindleFlush does at once what Python has asked for.
//
//export SpindleFlush
func SpindleFlush(id C.int) (result C.int) {
	defer guard(&result)
	at(id).server.take()
	return 0
}

// SpindleDrain stops accepting, closes idle connections, and puts SPINDLE_DRAINED into the
// inbox when the last connection has ended. Further calls do nothing.
//
//export SpindleDrain
func SpindleDrain(id C.int) (result C.int) {
	defer guard(&result)
	s := at(id).server
	if s.counters.draining.Swap(true) {
		return 0
	}
	for _, sv := range s.services {
		sv.Drain(func() {
			if s.drained++; s.drained == len(s.services) {
				s.in.add(C.SPINDLE_DRAINED, 0, 0, 0)
			}
		})
	}
	return 0
}

// SpindleAbort ends all connections.
//
//export SpindleAbort
func SpindleAbort(id C.int) (result C.int) {
	defer guard(&result)
	at(id).server.abort()
	return 0
}

// abort stops accepting and ends all connections.
func (s *server) abort() {
	for _, sv := range s.services {
		sv.Close()
	}
}

// close frees the mailbox, when nothing is served any more.
func (s *server) close() {
	s.log.flush()
	for _, b := range []unsafe.Pointer{unsafe.Pointer(s.box.in.data), unsafe.Pointer(s.box.out.data), unsafe.Pointer(s.box.held), unsafe.Pointer(s.box)} {
		C.free(b)
	}
	s.box = nil
}
