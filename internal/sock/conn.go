package sock

import (
	"io"
	"syscall"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/probe"
	"github.com/spindleloop/spindle/loop"
)

// Conn is a connected stream: a socket, or an end of a pipe. It never blocks. A call
// that would have to wait fails with EAGAIN, and Owner.Ready says when to retry.
//
// The descriptor is watched for edges. Conn caches the readiness known since the last
// edge, so that it makes no system call that is bound to fail with EAGAIN.
//
// Very many connections are idle, so a Conn is small. Its owner and the list of all
// connections are in the loop's table of watched descriptors.
type Conn struct {
	reg     *Registry
	fd      int32
	watched kernel.Interest
	kind    Kind
	state   state
}

// Owner has a Conn and receives its events.
type Owner interface {
	// Ready is called when the socket has become ready. It calls Note first; then
	// Readable and Writable say for what.
	Ready(r loop.Ready)
	// SocketOrphaned is called when the loop closes, before the socket is closed.
	SocketOrphaned()
	// Socket returns the Conn.
	Socket() *Conn
}

// state is what is known of a socket. Its two directions change independently:
//
//	reads:  ready ──EAGAIN, a short read──▶ drained ──Readable──▶ ready
//	writes: ready ──a partial write────────▶ full ────Writable──▶ ready
//
// EOF and CloseRead end the reads, CloseWrite shuts the writes, and Close ends both. All of it
// is in one word, with the other facts that the loop has reported, so that Readable, Drained
// and Writable take one test each.
type state uint16

const (
	drained    state = 1 << iota // a read would fail with EAGAIN
	full                         // a write would fail with EAGAIN
	hungUp                       // the peer sends no more; EOF or an error follows
	ended                        // EOF was read, or the reading side is closed
	shut                         // the writing side is closed
	readPaused                   // the owner does not read now
	reported                     // readable was reported since it was paused
	isClosed                     // Close or Release was called, or Init failed
	failed                       // a socket error is pending
	urgent                       // urgent data arrived: more data may follow a short read
)

// Kind is the kind of a descriptor.
type Kind uint8

const (
	Socket Kind = iota // any socket
	Pipe               // uses Read and Write of the kernel
	TCP                // a socket that needs fewer reads; see Conn.Read
)

// KindOf returns the kind of a stream socket of family f.
func KindOf(f kernel.Family) Kind {
	if f == kernel.IPv4 || f == kernel.IPv6 {
		return TCP
	}
	return Socket
}

// Init makes c the connection on fd and starts watching it. If Init fails, it closes fd.
func (c *Conn) Init(r *Registry, fd int, kind Kind, owner Owner) error {
	*c = Conn{reg: r, fd: int32(fd), watched: kernel.Read, kind: kind}
	if _, err := r.L.Internal().Watch(fd, kernel.Read, loop.Edge, owner); err != nil {
		r.K.CloseFD(fd)
		c.state = isClosed
		return err
	}
	r.open++
	return nil
}

func (c *Conn) is(s state) bool { return c.state&s != 0 }

// Registry returns the registry of the connection's loop.
func (c *Conn) Registry() *Registry { return c.reg }

// FD returns the descriptor, or -1 once it is closed.
func (c *Conn) FD() int {
	if c.is(isClosed) {
		return -1
	}
	return int(c.fd)
}

// Readable reports whether a read may return something other than EAGAIN.
func (c *Conn) Readable() bool { return !c.is(drained | ended | isClosed) }

// Drained reports whether a read would fail with EAGAIN.
func (c *Conn) Drained() bool { return c.state&(drained|ended|isClosed) == drained }

// Writable reports whether a write may send something.
func (c *Conn) Writable() bool { return !c.is(full | shut | isClosed) }

// unwritable returns the error of a write while Writable is false. It is nil if the socket
// is full: such a write sends nothing.
func (c *Conn) unwritable() error {
	switch {
	case c.is(isClosed):
		return syscall.EBADF
	case c.is(shut):
		return syscall.EPIPE
	}
	return nil
}

// Closed reports whether the connection was closed.
func (c *Conn) Closed() bool { return c.is(isClosed) }

// Ended reports whether EOF was read or the reading side was closed.
func (c *Conn) Ended() bool { return c.is(ended | isClosed) }

// HungUp reports whether the other end was closed or failed.
func (c *Conn) HungUp() bool { return c.is(hungUp) }

// WriteOnly reports whether c is a pipe from which nothing more can be read.
func (c *Conn) WriteOnly() bool { return c.kind == Pipe && c.is(ended) }

// Probe describes the connection for an inspector.
func (c *Conn) Probe(s *probe.Socket) {
	s.ReadPaused = c.is(readPaused)
	switch {
	case c.is(isClosed):
		s.State = "closed"
	case c.is(shut), c.is(ended):
		s.State = "shut"
	default:
		s.State = "open"
	}
}

// Failure returns the error with which the connection failed after EOF was read, when
// no read reports it any more. It returns nil if no failure is known.
func (c *Conn) Failure() error {
	if !c.is(failed) || !c.is(ended) || c.is(isClosed) {
		return nil
	}
	c.state &^= failed
	if code, err := c.reg.K.Option(int(c.fd), kernel.SocketError); err != nil || code == 0 {
		return err
	} else {
		return syscall.Errno(code)
	}
}

// Shut reports whether the writing side was closed.
func (c *Conn) Shut() bool { return c.is(shut | isClosed) }

// Note records the readiness that the loop has reported.
func (c *Conn) Note(r loop.Ready) {
	if r&loop.Readable != 0 {
		c.state &^= drained
	}
	if r&loop.HangUp != 0 {
		c.state |= hungUp
	}
	if r&loop.Failed != 0 {
		c.state |= hungUp | failed // in every direction that is watched; the next call returns the error
	}
	if r&loop.Writable != 0 {
		c.state &^= full
	}
	if r&loop.Urgent != 0 {
		c.state |= urgent
	}
	if c.is(readPaused|ended) && r&loop.Readable != 0 {
		c.noteUnread()
	}
}

// noteUnread records a report of data, or of EOF, that the owner does not read now. Most
// owners read soon, so the first report leaves the watch as it is. The second one ends it:
// data keeps arriving, or the kernel has no edges and would report it in every wait.
func (c *Conn) noteUnread() {
	if !c.is(reported) {
		c.state |= reported
		return
	}
	if err := c.watchFor(c.watched &^ kernel.Read); err != nil {
		c.state |= hungUp
	}
}

// watchFor changes the watch to in.
func (c *Conn) watchFor(in kernel.Interest) error {
	if in == c.watched {
		return nil
	}
	err := c.reg.L.Internal().SetInterest(int(c.fd), in)
	if err == nil {
		c.watched = in
	}
	return err
}

// Read reads what the socket holds. It fails with EAGAIN if that is nothing, and
// with io.EOF at the end. As in net, an empty Read succeeds.
func (c *Conn) Read(p []byte) (n int, err error) {
	switch {
	case c.is(isClosed):
		return 0, syscall.EBADF
	case len(p) == 0:
		return 0, nil
	case c.is(ended):
		return 0, io.EOF
	case c.is(drained):
		return 0, syscall.EAGAIN
	}
	if c.kind == Pipe {
		n, err = c.reg.K.Read(int(c.fd), p)
	} else {
		n, err = c.reg.K.Recv(int(c.fd), p)
	}
	switch {
	case isEAGAIN(err):
		c.state |= drained
	case err == nil && n == 0:
		c.state |= ended
		return 0, io.EOF
	case n < len(p) && c.kind == TCP && !c.is(hungUp|urgent):
		// A short read has emptied the socket, and the next bytes cause a new edge.
		// After a hang-up that does not hold: EOF may have arrived with the bytes,
		// without an edge of its own. Nor does it hold for a Unix socket, where a
		// read also stops at a passed descriptor.
		c.state |= drained
	}
	c.reg.in += uint64(max(n, 0))
	return n, err
}

// isEAGAIN reports whether err is EAGAIN. A comparison of the interfaces would be a call, on
// the stack of a task that is about to wait.
func isEAGAIN(err error) bool {
	errno, ok := err.(syscall.Errno)
	return ok && errno == syscall.EAGAIN
}

// Write writes as much of p as the socket takes. A partial write is not an error:
// Owner.Ready is called when the socket is writable again.
func (c *Conn) Write(p []byte) (n int, err error) {
	if !c.Writable() {
		return 0, c.unwritable()
	}
	if c.kind == Pipe {
		n, err = c.reg.K.Write(int(c.fd), p)
	} else {
		n, err = c.reg.K.Send(int(c.fd), p)
	}
	return n, c.noteWrite(n, len(p), err)
}

// Writev is like Write for the first MaxBuffers of bufs.
func (c *Conn) Writev(bufs [][]byte) (n int, err error) {
	if c.kind == Pipe || len(bufs) == 1 {
		return c.writeEach(bufs)
	}
	if !c.Writable() {
		return 0, c.unwritable()
	}
	bufs = bufs[:min(len(bufs), MaxBuffers)]
	size := 0
	for _, p := range bufs {
		size += len(p)
	}
	n, err = c.reg.K.Sendv(int(c.fd), bufs)
	n = max(n, 0)
	return n, c.noteWrite(n, size, err)
}

// MaxBuffers is the number of buffers that the kernel takes in one call.
const MaxBuffers = 1024

func (c *Conn) writeEach(bufs [][]byte) (n int, err error) {
	for _, p := range bufs {
		m, err := c.Write(p)
		n += m
		if err != nil || m < len(p) {
			return n, err
		}
	}
	return n, nil
}

// noteWrite records that a write sent n of size bytes and returned err.
func (c *Conn) noteWrite(n, size int, err error) error {
	c.reg.out += uint64(max(n, 0))
	if err != nil && !isEAGAIN(err) {
		return err
	}
	if n < size {
		c.state |= full
		return c.watchFor(c.watched | kernel.Write)
	}
	return nil
}

// WatchWritable reports that a write to a duplicate of the descriptor failed with
// EAGAIN, and watches until the socket is writable. The owner must have called
// UnwatchWritable before that write, or the edge could be missed.
func (c *Conn) WatchWritable() error {
	if c.is(isClosed) {
		return nil
	}
	c.state |= full
	return c.watchFor(c.watched | kernel.Write)
}

// UnwatchWritable stops watching for writability. The cached state is forgotten, so
// the next write calls the system.
func (c *Conn) UnwatchWritable() error {
	if c.is(isClosed) {
		return nil
	}
	c.state &^= full
	return c.watchFor(c.watched &^ kernel.Write)
}

// PauseReading says that the owner does not read until ResumeReading. It makes no
// system call; the watch ends when the socket is reported readable twice.
func (c *Conn) PauseReading() { c.state = c.state&^reported | readPaused }

// ResumeReading says that the owner reads again. If Readable is true afterwards, no
// call of Owner.Ready follows for it.
func (c *Conn) ResumeReading() error {
	c.state &^= readPaused
	if c.is(isClosed) || c.watched&kernel.Read != 0 {
		return nil
	}
	return c.watchFor(c.watched | kernel.Read)
}

// CloseWrite closes the writing side: the peer reads EOF.
func (c *Conn) CloseWrite() error {
	if c.is(shut | isClosed) {
		return nil
	}
	c.state |= shut
	if c.kind == Pipe {
		return nil // a pipe has one side only, and Close ends it
	}
	return c.reg.K.Shutdown(int(c.fd), kernel.WriteSide)
}

// CloseRead closes the reading side.
func (c *Conn) CloseRead() error {
	if c.is(ended | isClosed) {
		return nil
	}
	c.state |= ended
	if c.kind == Pipe {
		return nil
	}
	return c.reg.K.Shutdown(int(c.fd), kernel.ReadSide)
}

// Close closes the connection. Further calls do nothing.
func (c *Conn) Close() error {
	fd := c.Release()
	if fd < 0 {
		return nil
	}
	return c.reg.K.CloseFD(fd)
}

// Release stops watching the descriptor and returns it to the caller. It returns -1
// if the connection was closed.
func (c *Conn) Release() int {
	if c.is(isClosed) {
		return -1
	}
	c.reg.L.Internal().Unwatch(int(c.fd))
	c.state |= isClosed
	c.reg.open--
	return int(c.fd)
}
