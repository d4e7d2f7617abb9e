package transport

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/loop"
)

// SendFile sends n bytes of a regular file from offset on; all that follow if n is
// negative. They are sent in order with what Write sends: behind what was written
// before, ahead of what is written after. It returns at once, and the file must stay
// open until done is called, on the loop: with nil when all was handed to the
// system. They take no memory, and do not count for the water marks; on Linux they
// are not even copied, unless TLS has to encrypt them.
//
// What can be told at once to be wrong is told to done, and the connection goes on:
// a negative offset, no regular file (os.ErrInvalid), fewer bytes than asked for
// (io.ErrUnexpectedEOF). If the file cannot be read later, or has become shorter,
// the connection ends with that error: the peer would take what follows for the
// rest of the file. Done, which may be nil, is told of it, as of every other end.
//
// Reading and sending is done by workers of the loop (see loop.Options), as a disk may take its time.
func (c *Conn) SendFile(f *os.File, offset, n int64, done func(error)) {
	c.only("SendFile")
	if done == nil {
		done = func(error) {}
	}
	if c.is(gathered) {
		c.st.flush()
	}
	var err error
	if c.is(closing | shutting | lost) {
		err = net.ErrClosed
	} else {
		n, err = extent(f, offset, n)
	}
	switch {
	case err != nil:
		why := c.fault("sendfile", err)
		c.st.hub.L.CallSoonWith(loop.RunAtClose, func() { done(why) })
		return
	case n == 0:
		c.AfterFlush(done)
		return
	}
	if c.unsent == nil {
		c.unsent = &unsent{}
	}
	u := c.unsent
	first := u.empty()
	s := &span{f: f, offset: offset, left: n, at: c.out + uint64(u.total()), plain: c.tls != nil}
	u.files = append(u.files, s)
	e := c.more()
	e.marks = append(e.marks, mark{s.at + uint64(n), done})
	if first {
		c.waits()
		c.startSpan(s)
	}
}

// extent is how many bytes of f are meant.
func extent(f *os.File, offset, n int64) (int64, error) {
	st, err := f.Stat()
	switch {
	case err != nil:
		return 0, err
	case offset < 0 || !st.Mode().IsRegular():
		return 0, os.ErrInvalid
	case n < 0:
		n = max(st.Size()-offset, 0)
	case n > st.Size()-offset:
		return 0, io.ErrUnexpectedEOF
	}
	return n, nil
}

// span is a part of a file that waits to be sent.
type span struct {
	at     uint64 // how many bytes of the connection go before it
	f      *os.File
	offset int64
	left   int64  // not read or sent yet
	buf    []byte // read, and not sent
	plain  bool   // read it and send it, because the system does not do both in one
	busy   bool   // a worker is at it
	lease  *lease // of the socket; nil if there is none yet
}

// fileIsNext tells whether a file's bytes follow those that were sent.
func (u *unsent) fileIsNext(out uint64) bool { return len(u.files) > 0 && u.files[0].at <= out }

func (u *unsent) empty() bool { return u.size == 0 && len(u.files) == 0 && len(u.sealed) == 0 }

// total is how many bytes were written and wait, those of files included.
func (u *unsent) total() int64 {
	n := int64(u.size)
	for _, s := range u.files {
		n += s.left + int64(len(s.buf))
	}
	return n
}

// drainFile sends of the file whose turn it is. It tells whether to go on.
func (c *Conn) drainFile() bool {
	u := c.unsent
	s := u.files[0]
	switch {
	case s.busy:
		return false
	case len(s.buf) > 0:
		n, err := c.transmit(s.buf)
		c.out += uint64(n)
		s.at += uint64(n)
		s.buf = s.buf[n:]
		if err != nil {
			c.lose(c.fault("write", err))
			return false
		}
		if n > 0 {
			c.touch()
		}
		return true
	case s.left > 0:
		c.startSpan(s)
		return false
	}
	s.lease.drop()
	u.files[0] = nil
	u.files = u.files[1:]
	return true
}

// spanChunk is how much a worker sends at once, and plainChunk how much it reads.
const (
	spanChunk  = 1 << 20
	plainChunk = 64 << 10
)

// startSpan has a worker send or read the next bytes. Meanwhile the loop does not
// watch for room, so that whoever is told of it is told anew afterwards.
func (c *Conn) startSpan(s *span) {
	if err := c.socket.UnwatchWritable(); err != nil {
		c.lose(err)
		return
	}
	k := c.st.hub.K
	if s.lease == nil && !s.plain {
		fd, err := k.Native().Adopt(c.socket.FD())
		s.plain = err != nil
		if err == nil {
			s.lease = &lease{native: k.Native(), fd: fd}
		}
	}
	s.busy = true
	// The end of the connection, also by that of the loop, tells the caller of
	// SendFile whether or not a worker is at it.
	var err error
	if s.plain {
		_, err = loop.OffloadWith(c.Loop(), loop.DropAtClose, s.read, func(buf []byte, err error) { c.spanRead(s, buf, err) })
	} else {
		_, err = loop.OffloadWith(c.Loop(), loop.DropAtClose, s.send, func(n int, err error) { c.spanSent(s, n, err) })
	}
	if err != nil { // too many wait for a worker
		c.Loop().CallLater(spanRest, func() {
			s.busy = false
			c.spanOn()
		})
	}
}

// spanRest is how long a file waits for when there are too many jobs.
const spanRest = 10 * time.Millisecond

// send is a worker's: the socket takes what it has room for, and does not block.
func (s *span) send() (n int, err error) {
	if !s.lease.begin() {
		return 0, net.ErrClosed
	}
	defer s.lease.end()
	raw, err := s.f.SyscallConn()
	if err != nil {
		return 0, err
	}
	if e := raw.Control(func(fd uintptr) {
		n, err = s.lease.native.SendFile(s.lease.fd, int(fd), s.offset, int(min(s.left, spanChunk)))
	}); e != nil {
		return 0, os.ErrClosed
	}
	return n, err
}

func (c *Conn) spanSent(s *span, n int, err error) {
	if s.busy = false; c.is(lost) {
		return
	}
	all := int64(n) == min(s.left, spanChunk)
	c.out += uint64(n)
	s.at += uint64(n)
	s.offset += int64(n)
	s.left -= int64(n)
	if n > 0 {
		c.touch()
	}
	switch {
	case err == nil && all:
	case err == nil && n == 0:
		err = io.ErrUnexpectedEOF
	case err == nil, err == syscall.EAGAIN:
		err = c.socket.WatchWritable()
	case err == syscall.ENOSYS, err == syscall.EINVAL, err == syscall.EOPNOTSUPP:
		s.plain, err = true, nil // not this file, or not to this socket
	}
	if err != nil {
		c.lose(c.fault("sendfile", err))
		return
	}
	if c.socket.Writable() {
		c.spanOn()
	}
}

// read is a worker's.
func (s *span) read() ([]byte, error) {
	buf := make([]byte, min(s.left, plainChunk))
	n, err := s.f.ReadAt(buf, s.offset)
	if n > 0 {
		err = nil
	}
	return buf[:n], err
}

func (c *Conn) spanRead(s *span, buf []byte, err error) {
	if s.busy = false; c.is(lost) {
		return
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		c.lose(c.fault("sendfile", err))
		return
	}
	s.offset += int64(len(buf))
	s.left -= int64(len(buf))
	s.buf = buf
	c.spanOn()
}

// spanOn goes on after a worker's part.
func (c *Conn) spanOn() {
	if !c.is(lost) {
		(*owner)(c).SocketReady()
	}
}

// dropFiles lets go of files that will not be sent. A worker may be about to send:
// the socket is shut, so that nothing more goes out.
func (c *Conn) dropFiles() {
	if c.unsent == nil {
		return
	}
	for _, s := range c.unsent.files {
		if s.busy && c.socket.FD() >= 0 {
			c.st.hub.K.Shutdown(c.socket.FD(), kernel.BothSides)
		}
		s.lease.drop()
	}
}

// lease is a descriptor of a socket that a worker may use for as long as it needs.
// Without it the socket could be closed meanwhile, and the bytes go to whoever gets
// its number.
type lease struct {
	native kernel.Native
	fd     int

	mu   sync.Mutex
	busy bool // guarded by mu
	over bool // guarded by mu
}

func (l *lease) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy = !l.over
	return l.busy
}

func (l *lease) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy = false; l.over {
		l.native.Release(l.fd)
	}
}

// drop ends the lease; if a worker is at it, when that is done.
func (l *lease) drop() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over && !l.busy {
		l.native.Release(l.fd)
	}
	l.over = true
}
