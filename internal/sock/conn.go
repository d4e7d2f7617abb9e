package sock

import (
	"io"
	"syscall"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/loop"
)

// Conn is a connected stream: a socket, or an end of a pipe. It never waits: where
// a call would have to, it fails with EAGAIN, and the owner is told when to try
// again.
//
// It is watched for edges. What is known of the descriptor since the last one is
// kept here, so that no call is made in vain.
type Conn struct {
	hub        *Hub
	owner      Owner
	watch      loop.Watch
	prev, next *Conn // open ones of the hub
	fd         int32
	armed      loop.Interest // what is watched
	state      state
}

// Owner is whoever stands on a Conn.
type Owner interface {
	// SocketReady is called when the socket has become ready: for what Reads
	// and Writes tell.
	SocketReady()
	// SocketOrphaned is called when the loop is closed, before the socket is.
	SocketOrphaned()
}

type state uint16

const (
	drained state = 1 << iota // a read would find nothing
	full                      // a write would find no room
	hungUp                    // the peer will send no more: the end is near
	ended                     // the end was read
	shut                      // the writing side is closed
	idle                      // nobody wants to read now
	isPipe                    // no socket
	isTCP
	isClosed // also by the system
	failed   // an error is pending
	urgent   // there was urgent data: a short read may have more behind it
)

// Kind says what a descriptor is.
type Kind uint8

const (
	Socket Kind = iota // a socket of any kind
	Pipe               // read or written by Read and Write of the kernel
	TCP                // a socket of which less is asked: see Conn.Read
)

// KindOf is the kind of a stream socket of a family.
func KindOf(f kernel.Family) Kind {
	if f == kernel.IPv4 || f == kernel.IPv6 {
		return TCP
	}
	return Socket
}

// Init makes c the connection on fd and begins to watch it. If it fails, fd is
// closed.
func (c *Conn) Init(h *Hub, fd int, kind Kind, owner Owner) error {
	*c = Conn{hub: h, owner: owner, fd: int32(fd)}
	switch kind {
	case Pipe:
		c.state = isPipe
	case TCP:
		c.state = isTCP
	}
	if err := c.arm(loop.Read); err != nil {
		h.K.CloseFD(fd)
		c.state = isClosed
		return err
	}
	if c.prev = h.last; c.prev != nil {
		c.prev.next = c
	}
	h.last = c
	h.open++
	return nil
}

func (c *Conn) is(s state) bool { return c.state&s != 0 }

// Hub is the hub of the connection's loop.
func (c *Conn) Hub() *Hub { return c.hub }

// FD is the descriptor, -1 once it is closed.
func (c *Conn) FD() int {
	if c.is(isClosed) {
		return -1
	}
	return int(c.fd)
}

// Readable tells whether a read may find something.
func (c *Conn) Readable() bool { return !c.is(drained | ended | isClosed) }

// Drained tells whether a read would find nothing yet.
func (c *Conn) Drained() bool { return c.state&(drained|ended|isClosed) == drained }

// Writable tells whether a write may find room.
func (c *Conn) Writable() bool { return !c.is(full | shut | isClosed) }

// Closed tells whether the connection was closed.
func (c *Conn) Closed() bool { return c.is(isClosed) }

// Ended tells whether the end was read, or reading was given up.
func (c *Conn) Ended() bool { return c.is(ended | isClosed) }

// HungUp tells whether the other end was closed, or failed.
func (c *Conn) HungUp() bool { return c.is(hungUp) }

// WriteOnly tells whether it is the end of a pipe from which nothing can be read,
// any more or ever.
func (c *Conn) WriteOnly() bool { return c.is(isPipe) && c.is(ended) }

// Failure is why the connection has failed since its end was read: no read would
// tell any more. It is nil if it has not, as far as is known.
func (c *Conn) Failure() error {
	if !c.is(failed) || !c.is(ended) || c.is(isClosed) {
		return nil
	}
	c.state &^= failed
	if code, err := c.hub.K.Option(int(c.fd), kernel.SocketError); err != nil || code == 0 {
		return err
	} else {
		return syscall.Errno(code)
	}
}

// Shut tells whether the writing side was closed.
func (c *Conn) Shut() bool { return c.is(shut | isClosed) }

// told is called by the loop.
func (c *Conn) told(r loop.Ready) {
	if r&loop.Readable != 0 {
		c.state &^= drained
	}
	if r&loop.HangUp != 0 {
		c.state |= hungUp
	}
	if r&loop.Failed != 0 {
		c.state |= hungUp | failed // in every direction that is watched; a call will tell why
	}
	if r&loop.Writable != 0 {
		c.state &^= full
	}
	if r&loop.Urgent != 0 {
		c.state |= urgent
	}
	if c.is(idle|ended) && r&loop.Readable != 0 {
		// It is known now. A kernel without edges would say it again and again,
		// the end for ever.
		if err := c.arm(c.armed &^ loop.Read); err != nil {
			c.state |= hungUp
		}
	}
	c.owner.SocketReady()
}

// arm watches for what in says.
func (c *Conn) arm(in loop.Interest) (err error) {
	switch {
	case in == c.armed:
		return nil
	case in == 0:
		c.watch.Cancel()
	case c.armed == 0:
		c.watch, err = c.hub.L.Watch(int(c.fd), in, loop.Edge, c.told)
	default:
		err = c.watch.Modify(in, loop.Edge)
	}
	if err == nil {
		c.armed = in
	}
	return err
}

// Read reads what is there. It fails with EAGAIN if that is nothing, and with
// io.EOF at the end.
func (c *Conn) Read(p []byte) (n int, err error) {
	switch {
	case c.is(isClosed):
		return 0, syscall.EBADF
	case c.is(ended):
		return 0, io.EOF
	case c.is(drained):
		return 0, syscall.EAGAIN
	case len(p) == 0:
		return 0, nil
	}
	if c.is(isPipe) {
		n, err = c.hub.K.Read(int(c.fd), p)
	} else {
		n, err = c.hub.K.Recv(int(c.fd), p)
	}
	switch {
	case err == syscall.EAGAIN:
		c.state |= drained
	case err == nil && n == 0:
		c.state |= ended
		return 0, io.EOF
	case n < len(p) && c.is(isTCP) && !c.is(hungUp|urgent):
		// A short read has emptied the socket: the next bytes are a new edge.
		// Only the end may have come with the bytes, without one of its own. A
		// Unix socket is not empty then: reads also end where a descriptor was
		// passed.
		c.state |= drained
	}
	return n, err
}

// Write writes what there is room for. If that is not all, it is not an error:
// the owner is told when there is room again.
func (c *Conn) Write(p []byte) (n int, err error) {
	switch {
	case c.is(isClosed):
		return 0, syscall.EBADF
	case c.is(shut):
		return 0, syscall.EPIPE
	case c.is(full):
		return 0, nil
	}
	if c.is(isPipe) {
		n, err = c.hub.K.Write(int(c.fd), p)
	} else {
		n, err = c.hub.K.Send(int(c.fd), p)
	}
	return n, c.wrote(n, len(p), err)
}

// Writev is Write of several buffers, of the first MostBuffers of them.
func (c *Conn) Writev(bufs [][]byte) (n int, err error) {
	if c.is(isPipe) || len(bufs) == 1 {
		return c.writeEach(bufs)
	}
	switch {
	case c.is(isClosed):
		return 0, syscall.EBADF
	case c.is(shut):
		return 0, syscall.EPIPE
	case c.is(full):
		return 0, nil
	}
	bufs = bufs[:min(len(bufs), MostBuffers)]
	size := 0
	for _, p := range bufs {
		size += len(p)
	}
	n, err = c.hub.K.Sendv(int(c.fd), bufs)
	n = max(n, 0)
	return n, c.wrote(n, size, err)
}

// MostBuffers is how many the kernel takes at once.
const MostBuffers = 1024

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

// wrote takes note of a write of n out of size bytes.
func (c *Conn) wrote(n, size int, err error) error {
	if err != nil && err != syscall.EAGAIN {
		return err
	}
	if n < size {
		c.state |= full
		return c.arm(c.armed | loop.Write)
	}
	return nil
}

// Blocked says that somebody else who writes found no room. Before that, the owner
// has said that there was nothing to write (Flushed), so that room there is by now is told.
func (c *Conn) Blocked() error {
	if c.is(isClosed) {
		return nil
	}
	c.state |= full
	return c.arm(c.armed | loop.Write)
}

// Flushed says that nobody waits for room any more. Whether there is some is then
// not known: the next write tries.
func (c *Conn) Flushed() error {
	if c.is(isClosed) {
		return nil
	}
	c.state &^= full
	return c.arm(c.armed &^ loop.Write)
}

// Idle says that nobody wants to read until Busy.
func (c *Conn) Idle() { c.state |= idle }

// Busy says that somebody wants to read. If Readable is then true, no call of
// SocketReady will tell of it.
func (c *Conn) Busy() error {
	c.state &^= idle
	if c.is(isClosed) || c.armed&loop.Read != 0 {
		return nil
	}
	return c.arm(c.armed | loop.Read)
}

// CloseWrite closes the writing side: the peer reads the end.
func (c *Conn) CloseWrite() error {
	if c.is(shut | isClosed) {
		return nil
	}
	c.state |= shut
	if c.is(isPipe) {
		return nil // it has no other side; Close ends it
	}
	return c.hub.K.Shutdown(int(c.fd), kernel.WriteSide)
}

// CloseRead closes the reading side.
func (c *Conn) CloseRead() error {
	if c.is(ended | isClosed) {
		return nil
	}
	c.state |= ended
	if c.is(isPipe) {
		return nil
	}
	return c.hub.K.Shutdown(int(c.fd), kernel.ReadSide)
}

// Close closes the connection, once.
func (c *Conn) Close() error {
	fd := c.Release()
	if fd < 0 {
		return nil
	}
	return c.hub.K.CloseFD(fd)
}

// Release gives the descriptor back to the caller, unwatched; -1 if it was closed.
func (c *Conn) Release() int {
	if c.is(isClosed) {
		return -1
	}
	c.arm(0)
	c.state |= isClosed
	if c.prev != nil {
		c.prev.next = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	} else {
		c.hub.last = c.prev
	}
	c.prev, c.next = nil, nil
	c.hub.open--
	return int(c.fd)
}
