package main

import (
	"context"
	"syscall"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/loop"
)

// callbackEcho is the server as callbacks. What its connections share is here,
// so that a connection is small.
type callbackEcho struct {
	l        *loop.Loop
	k        *kernel.Kernel
	flushing func() // s.flush
	buf      []byte // every read goes here: one callback runs at a time

	// What was read in this turn and is written at its end.
	echoes []echo
	used   int // bytes of buf that echoes hold
}

// echo is a message to be sent back.
type echo struct {
	c *echoConn
	p []byte
}

func newCallbackEcho(l *loop.Loop) echoModel {
	s := &callbackEcho{l: l, k: l.Kernel(), buf: make([]byte, 64<<10)}
	s.flushing = s.flush
	return s
}

func (s *callbackEcho) run(ctx context.Context) error { return s.l.Run(ctx) }

func (s *callbackEcho) serve(fd int) {
	s.k.SetOption(fd, kernel.NoDelay, 1)
	c := &echoConn{s: s, fd: fd}
	var err error
	if c.watch, err = s.l.Watch(fd, loop.Read, loop.Edge, c.ready); err != nil {
		s.k.CloseFD(fd)
	}
}

// leastRoom is how much of buf must be free to read into it.
const leastRoom = 16 << 10

// collect reads a message to be echoed at the end of the turn, when everything
// there was to read has been read: all reads and then all writes are a few
// percent faster than one after the other. It tells whether c is settled.
func (s *callbackEcho) collect(c *echoConn) bool {
	room := s.buf[s.used:]
	if len(room) < leastRoom {
		s.flush()
		room = s.buf
	}
	n, err := s.k.Recv(c.fd, room)
	if err == syscall.EAGAIN {
		return true
	}
	if err != nil || n == 0 {
		s.flush()
		if c.fd >= 0 && (err != nil || c.unsent == nil) { // else the end is there again when all is sent
			c.close()
		}
		return true
	}
	if len(s.echoes) == 0 {
		s.l.CallSoonPriority(loop.High, s.flushing)
	}
	s.echoes = append(s.echoes, echo{c, room[:n]})
	s.used += n
	return n < len(room)
}

func (s *callbackEcho) flush() {
	for i, e := range s.echoes {
		s.echoes[i] = echo{}
		if e.c.fd >= 0 {
			e.c.send(e.p)
		}
	}
	s.echoes, s.used = s.echoes[:0], 0
}

// echoConn is a connection. It reads only while it has nothing to write, so
// that a peer that does not read is not read from either.
type echoConn struct {
	s      *callbackEcho
	watch  loop.Watch
	unsent *[]byte // waits for room; nil nearly always
	fd     int     // -1 once closed
}

func (c *echoConn) ready(r loop.Ready) {
	if c.unsent != nil && !c.flush() {
		return
	}
	if r&loop.HangUp == 0 && c.s.collect(c) {
		return
	}
	c.s.flush()
	if c.fd < 0 || c.unsent != nil { // the flush was about c too
		return
	}
	for range 16 {
		buf := c.s.buf
		n, err := c.s.k.Recv(c.fd, buf)
		if err == syscall.EAGAIN {
			return
		}
		if err != nil || n == 0 {
			c.close()
			return
		}
		if !c.send(buf[:n]) {
			return
		}
		// A short read has emptied the socket: the next bytes are a new
		// edge. Only the end may have come with the bytes.
		if n < len(buf) && r&loop.HangUp == 0 {
			return
		}
	}
	// This peer sends faster than we echo: let the others have a turn.
	c.s.l.CallSoon(func() {
		if c.fd >= 0 {
			c.ready(r)
		}
	})
}

// send writes p, keeps what does not fit, and tells whether all of it did.
func (c *echoConn) send(p []byte) bool {
	if c.unsent != nil { // two messages of one turn
		*c.unsent = append(*c.unsent, p...)
		return false
	}
	n, err := c.s.k.Send(c.fd, p)
	switch {
	case err != nil && err != syscall.EAGAIN:
		c.close()
		return false
	case n == len(p):
		return true
	}
	rest := append([]byte(nil), p[n:]...)
	c.unsent = &rest
	c.listenFor(loop.Write)
	return false
}

// flush writes what is unsent and tells whether nothing is left.
func (c *echoConn) flush() bool {
	n, err := c.s.k.Send(c.fd, *c.unsent)
	if err != nil && err != syscall.EAGAIN {
		c.close()
		return false
	}
	if *c.unsent = (*c.unsent)[n:]; len(*c.unsent) > 0 {
		return false
	}
	c.unsent = nil
	return c.listenFor(loop.Read)
}

func (c *echoConn) listenFor(in loop.Interest) bool {
	if err := c.watch.Modify(in, loop.Edge); err != nil {
		c.close()
		return false
	}
	return true
}

func (c *echoConn) close() {
	c.watch.Cancel()
	c.s.k.CloseFD(c.fd)
	c.fd = -1
}
