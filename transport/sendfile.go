package transport

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/onloop"
	"github.com/spindleloop/spindle/internal/workers"
)

// SendFile sends n bytes of a regular file from offset on, or the rest of the file if n
// is negative. They are sent in order with the bytes of Write. SendFile returns at once.
// The file must stay open until done is called on the loop, with nil when everything was
// handed to the system. The bytes take no memory and do not count towards the water
// marks. On Linux they are not even copied, unless TLS has to encrypt them.
//
// Errors that are known at once are passed to done, and the connection stays open: a
// negative offset or a file that is not regular (os.ErrInvalid), or a file that is too
// short (io.ErrUnexpectedEOF). If the connection was closed before done is called, it ends
// without a close_notify of TLS, so that the peer notices. If the file cannot be read later, or has become shorter,
// the connection ends with that error, because the peer would take the next bytes for
// the rest of the file. done, which may be nil, gets the error, as for any other end.
//
// Workers of the loop read and send the file (see loop.Options), because a disk may be
// slow.
func (c *Conn) SendFile(f *os.File, offset, n int64, done func(error)) {
	c.checkLoop("SendFile")
	if done == nil {
		done = func(error) {}
	}
	if c.is(hasGathered) {
		c.st.flush()
	}
	var err error
	if c.phase != phaseOpen {
		err = net.ErrClosed
	} else {
		n, err = fileRangeLen(f, offset, n)
	}
	switch {
	case err != nil:
		c.failFile(c.opError("sendfile", err), done)
		return
	case n == 0:
		c.AfterFlush(done)
		return
	}
	if c.unsent == nil {
		c.unsent = &sendQueue{}
	}
	q := c.unsent
	first := q.empty()
	s := &fileRange{f: f, offset: offset, remaining: n, at: c.out + uint64(q.total()), copying: c.tls != nil}
	q.files = append(q.files, s)
	e := c.ensureExtra()
	e.flushWaiters = append(e.flushWaiters, flushWaiter{s.at + uint64(n), done})
	if first {
		c.noteQueued()
		c.startFileJob(s)
	}
}

// failFile calls done for a file that cannot be sent at all. If the program closes the
// connection before that, the peer must not take what it got for all there is: it gets no
// close_notify.
func (c *Conn) failFile(err error, done func(error)) {
	c.marks |= fileMissing
	c.st.sockets.L.Internal().CallSoon(atclose.Run, func() {
		if c.phase == phaseOpen {
			c.marks &^= fileMissing
		}
		done(err)
	})
}

// fileRangeLen returns how many bytes of f SendFile is to send.
func fileRangeLen(f *os.File, offset, n int64) (int64, error) {
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

// fileRange is a queued part of a file.
type fileRange struct {
	at        uint64 // the number of bytes that the connection sends before it
	f         *os.File
	offset    int64
	remaining int64  // not read or sent yet
	buf       []byte // read, and not sent
	copying   bool   // workers read and the loop sends, because sendfile does not apply
	busy      bool   // a worker has the file
	lease     *lease // nil before the first sendfile
}

// fileIsNext reports whether the next bytes to send are those of a file.
func (q *sendQueue) fileIsNext(out uint64) bool { return len(q.files) > 0 && q.files[0].at <= out }

func (q *sendQueue) empty() bool { return q.size == 0 && len(q.files) == 0 && len(q.raw) == 0 }

// total returns the number of unsent bytes, including those of files.
func (q *sendQueue) total() int64 {
	n := int64(q.size)
	for _, s := range q.files {
		n += s.remaining + int64(len(s.buf))
	}
	return n
}

// drainFile sends bytes of the first file. It reports whether drain may continue.
func (c *Conn) drainFile() bool {
	q := c.unsent
	s := q.files[0]
	switch {
	case s.busy:
		return false
	case len(s.buf) > 0:
		n, err := c.transmit(s.buf)
		c.out += uint64(n)
		s.at += uint64(n)
		s.buf = s.buf[n:]
		if err != nil {
			c.lose(c.opError("write", err))
			return false
		}
		if n > 0 {
			c.noteSent()
		}
		return true
	case s.remaining > 0:
		c.startFileJob(s)
		return false
	}
	s.lease.drop()
	q.files[0] = nil
	q.files = q.files[1:]
	return true
}

// A worker sends at most sendfileChunk bytes at once, or reads at most copyChunk.
const (
	sendfileChunk = 1 << 20
	copyChunk     = 64 << 10
)

// sentFiles is the pool of files that are sent: blocking work of the program does not delay
// them.
var sentFiles = workers.Pool{Name: "sent files"}

// startFileJob lets a worker send or read the next bytes. The loop does not watch for
// writability meanwhile, so that the edge is not used up before the worker returns.
func (c *Conn) startFileJob(s *fileRange) {
	if err := c.socket.UnwatchWritable(); err != nil {
		c.lose(err)
		return
	}
	k := c.st.sockets.K
	if s.lease == nil && !s.copying {
		fd, err := k.Native().Adopt(c.socket.FD())
		s.copying = err != nil
		if err == nil {
			s.lease = &lease{native: k.Native(), fd: fd}
		}
	}
	s.busy = true
	// The end of the connection calls done whether or not a worker returns, so the
	// loop may drop the result when it closes.
	var err error
	if s.copying {
		_, err = onloop.Offload(c.Loop(), &sentFiles, atclose.Drop, s.read, func(buf []byte, err error) { c.fileRead(s, buf, err) })
	} else {
		_, err = onloop.Offload(c.Loop(), &sentFiles, atclose.Drop, s.send, func(n int, err error) { c.fileSent(s, n, err) })
	}
	if err != nil { // the queue of the workers is full
		c.Loop().CallLater(offloadRetryDelay, func() {
			s.busy = false
			c.resumeFiles()
		})
	}
}

// offloadRetryDelay is how long to wait when the queue of the workers is full.
const offloadRetryDelay = 10 * time.Millisecond

// send runs on a worker. It sends what the socket takes and does not block.
func (s *fileRange) send() (n int, err error) {
	if !s.lease.begin() {
		return 0, net.ErrClosed
	}
	defer s.lease.end()
	raw, err := s.f.SyscallConn()
	if err != nil {
		return 0, err
	}
	if e := raw.Control(func(fd uintptr) {
		n, err = s.lease.native.SendFile(s.lease.fd, int(fd), s.offset, int(min(s.remaining, sendfileChunk)))
	}); e != nil {
		return 0, os.ErrClosed
	}
	return n, err
}

func (c *Conn) fileSent(s *fileRange, n int, err error) {
	if s.busy = false; c.phase.lost() {
		return
	}
	all := int64(n) == min(s.remaining, sendfileChunk)
	c.out += uint64(n)
	s.at += uint64(n)
	s.offset += int64(n)
	s.remaining -= int64(n)
	if n > 0 {
		c.noteSent()
	}
	switch {
	case err == nil && all:
	case err == nil && n == 0:
		err = io.ErrUnexpectedEOF
	case err == nil, err == syscall.EAGAIN:
		err = c.socket.WatchWritable()
	case err == syscall.ENOSYS, err == syscall.EINVAL, err == syscall.EOPNOTSUPP:
		s.copying, err = true, nil // sendfile does not support this file or socket
	}
	if err != nil {
		c.lose(c.opError("sendfile", err))
		return
	}
	if c.socket.Writable() {
		c.resumeFiles()
	}
}

// read runs on a worker.
func (s *fileRange) read() ([]byte, error) {
	buf := make([]byte, min(s.remaining, copyChunk))
	n, err := s.f.ReadAt(buf, s.offset)
	if n > 0 {
		err = nil
	}
	return buf[:n], err
}

func (c *Conn) fileRead(s *fileRange, buf []byte, err error) {
	if s.busy = false; c.phase.lost() {
		return
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		c.lose(c.opError("sendfile", err))
		return
	}
	s.offset += int64(len(buf))
	s.remaining -= int64(len(buf))
	s.buf = buf
	c.resumeFiles()
}

// resumeFiles continues sending after a worker has returned.
func (c *Conn) resumeFiles() {
	if !c.phase.lost() {
		c.proceed()
	}
}

// releaseFiles releases the files that will not be sent. If a worker may be about to
// send, the socket is shut down so that nothing more goes out.
func (c *Conn) releaseFiles() {
	if c.unsent == nil {
		return
	}
	for _, s := range c.unsent.files {
		if s.busy && c.socket.FD() >= 0 {
			c.st.sockets.K.Shutdown(c.socket.FD(), kernel.BothSides)
		}
		s.lease.drop()
	}
}

// lease is a duplicate of a socket's descriptor, which stays open while a worker uses
// it. Without it the socket could be closed meanwhile, and the bytes would go to the
// next socket with the same number.
type lease struct {
	native kernel.Native
	fd     int

	mu      sync.Mutex
	busy    bool // guarded by mu
	dropped bool // guarded by mu
}

func (l *lease) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy = !l.dropped
	return l.busy
}

func (l *lease) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy = false; l.dropped {
		l.native.Release(l.fd)
	}
}

// drop ends the lease, or makes the worker that uses it do so.
func (l *lease) drop() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.dropped && !l.busy {
		l.native.Release(l.fd)
	}
	l.dropped = true
}
