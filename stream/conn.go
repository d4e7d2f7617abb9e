// Package stream provides network I/O for tasks. A Conn is an ordinary net.Conn, but
// its calls suspend the calling task instead of blocking the loop. So code written for
// net.Conn, io and bufio runs in tasks unchanged.
//
//	err := spindle.Run(ctx, func(ctx context.Context) error {
//		ln, err := stream.Listen(ctx, "tcp", "127.0.0.1:9000")
//		if err != nil {
//			return err
//		}
//		return stream.Serve(ctx, ln, func(ctx context.Context, c *stream.Conn) error {
//			_, err := io.Copy(c, c)
//			return err
//		})
//	})
//
// # Tasks and other goroutines
//
// A task of the loop that calls a Conn, Listener or PacketConn is suspended until
// the call completes. If the task's scope is cancelled, the call fails with that
// cancellation. A cancelled Read has consumed nothing; a cancelled Write returns how
// much it wrote.
//
// Any other goroutine may call them too: a task of the loop makes the call while the
// goroutine waits. Close and the methods that set deadlines do not wait for the
// loop.
//
// Concurrent reads are served in the order of their calls, and so are concurrent
// writes. The bytes of one Write stay together.
package stream

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/loop"
)

// Conn is a connection over a TCP or Unix socket, or one end of a pipe. It
// implements net.Conn.
type Conn struct {
	socket  socket
	nursery *spindle.Nursery // runs calls made by other goroutines
	addrs   atomic.Pointer[addrs]
	reads   direction
	writes  direction
	closed  atomic.Bool // Close was called
	pipe    bool
	unix    bool // known to be a Unix socket
}

// socket hides the methods of sock.Conn from users of Conn.
type socket struct{ sock.Conn }

var _ net.Conn = (*Conn)(nil)

// newConn returns a connection on fd. If it fails, it closes fd.
func newConn(nursery *spindle.Nursery, h *sock.Registry, fd int, kind sock.Kind) (*Conn, error) {
	c := &Conn{nursery: nursery, pipe: kind == sock.Pipe}
	if err := c.socket.Init(h, fd, kind, (*owner)(c)); err != nil {
		return nil, err
	}
	c.socket.PauseReading()
	return c, nil
}

func (c *Conn) registry() *sock.Registry { return c.socket.Registry() }
func (c *Conn) loop() *loop.Loop         { return c.registry().L }

// here returns the context of the calling task, or nil for another goroutine.
func (c *Conn) here() context.Context { return coro.Here(c.loop().Internal()) }

// owner implements sock's callbacks without adding methods to Conn.
type owner Conn

// Ready wakes the tasks that wait for readiness the socket now has.
func (o *owner) Ready(r loop.Ready) {
	c := (*Conn)(o)
	c.socket.Note(r)
	if c.socket.Readable() {
		c.reads.wake(nil)
	}
	if c.socket.Writable() {
		c.writes.wake(nil)
	}
}

// SocketOrphaned closes the connection when the loop closes.
func (o *owner) SocketOrphaned() { (*Conn)(o).closeOnLoop() }

// Socket returns the socket.
func (o *owner) Socket() *sock.Conn { return &o.socket.Conn }

// Read reads up to len(p) bytes, waiting until at least one is available. At the end
// of the stream it returns io.EOF.
func (c *Conn) Read(p []byte) (n int, err error) {
	ctx := c.here()
	if ctx == nil {
		return c.fromGoroutine("read", func(ctx context.Context) (int, error) { return c.read(ctx, p) })
	}
	return c.read(ctx, p)
}

func (c *Conn) read(ctx context.Context, p []byte) (n int, err error) {
	w, err := spindle.NewWaker(ctx)
	if err != nil {
		return 0, err
	}
	if c.mustWait(p) {
		if err = c.socket.ResumeReading(); err != nil {
			c.socket.PauseReading()
			w.Pass()
			return 0, c.netError("read", err)
		}
		c.reads.setWaiter(w)
		// The switch is made in this frame, not in a callee: idle connections wait
		// here, and each frame costs stack.
		var sw coro.Switch
		for sw, err = coro.Waker(w).Leave(ctx, "Conn.Read", &c.reads); sw != nil; sw, err = coro.Waker(w).Back() {
			sw()
		}
		c.socket.PauseReading()
	} else {
		w.Pass()
		if err := c.reads.acquire(ctx, "Conn.Read"); err != nil {
			return 0, err
		}
	}
	if err == nil {
		n, err = c.tryRead(p)
	}
	for err == syscall.EAGAIN {
		if err = c.reads.beginWait(ctx, c.socket.ResumeReading()); err == nil {
			err = c.reads.waker().Park(ctx, "Conn.Read", &c.reads)
		}
		c.socket.PauseReading()
		if err == nil {
			n, err = c.tryRead(p)
		}
	}
	c.reads.release()
	return n, c.netError("read", err)
}

// mustWait reports whether a Read is known to wait for the socket without trying,
// and does not have to wait for another Read.
func (c *Conn) mustWait(p []byte) bool {
	return c.socket.Drained() && !c.reads.busy() && !c.reads.expired() && len(p) > 0
}

func (c *Conn) tryRead(p []byte) (int, error) {
	if len(p) == 0 && !c.socket.Closed() { // as in net, an empty Read succeeds
		return 0, nil
	}
	if c.reads.expired() {
		return 0, os.ErrDeadlineExceeded
	}
	return c.socket.Read(p)
}

// ReadBorrow reads into a buffer that all connections of the loop share and returns
// the bytes read. They are valid until the task's next call that may wait; that call
// may be a Write of them. A connection that waits in ReadBorrow needs no buffer of
// its own. Only tasks may call it.
func (c *Conn) ReadBorrow() ([]byte, error) {
	ctx := c.here()
	if ctx == nil {
		panic("stream: ReadBorrow called from a goroutine that is not a task of the connection's loop")
	}
	buf := c.registry().Buf
	c.registry().Poison(buf)
	n, err := c.read(ctx, buf)
	return buf[:n], err
}

// Write writes all of p, waiting while the socket's buffer is full.
func (c *Conn) Write(p []byte) (n int, err error) {
	ctx := c.here()
	if ctx == nil {
		return c.fromGoroutine("write", func(ctx context.Context) (int, error) { return c.write(ctx, p) })
	}
	return c.write(ctx, p)
}

func (c *Conn) write(ctx context.Context, p []byte) (n int, err error) {
	if ctx.Err() != nil {
		if err := spindle.Checkpoint(ctx); err != nil {
			return 0, err
		}
	}
	borrowed := c.borrowed(p)
	if borrowed && c.writes.busy() { // other tasks overwrite the shared buffer during the wait
		p, borrowed = append([]byte(nil), p...), false
	}
	if err := c.writes.acquire(ctx, "Conn.Write"); err != nil {
		return 0, err
	}
	n, err = c.tryWrite(p)
	if err == nil && n < len(p) {
		m := 0
		if borrowed {
			m, err = c.writeBorrowed(ctx, p[n:])
		} else {
			m, err = c.writeRest(ctx, p[n:])
		}
		n += m
	}
	c.writes.release()
	if err != nil {
		return n, c.netError("write", err)
	}
	if !borrowed && ctx.Err() == nil {
		spindle.Checkpoint(ctx) // a cancellation does not undo the completed Write
	}
	return n, nil
}

func (c *Conn) tryWrite(p []byte) (int, error) {
	if c.writes.expired() {
		return 0, os.ErrDeadlineExceeded
	}
	return c.socket.Write(p)
}

// writeRest writes all of p after the socket's buffer was found full.
func (c *Conn) writeRest(ctx context.Context, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		if err = c.writes.wait(ctx, "Conn.Write"); err == nil {
			var m int
			m, err = c.tryWrite(p[n:])
			n += m
		}
	}
	// Also after a failure: no task waits for writability any more.
	if e := c.socket.UnwatchWritable(); err == nil {
		err = e
	}
	return n, err
}

// writeBorrowed is writeRest for bytes in the shared buffer: it copies them first,
// because other tasks overwrite that buffer during the wait.
func (c *Conn) writeBorrowed(ctx context.Context, p []byte) (int, error) {
	st := loopStateOf(c.loop())
	buf := st.getBuffer()
	n, err := c.writeRest(ctx, buf[:copy(buf, p)])
	st.putBuffer(buf)
	return n, err
}

// borrowed reports whether p lies in the shared buffer that ReadBorrow returns.
func (c *Conn) borrowed(p []byte) bool {
	buf := c.registry().Buf
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(buf)))
	return uintptr(unsafe.Pointer(unsafe.SliceData(p)))-begin < uintptr(len(buf))
}

// Close closes the connection. Pending Reads and Writes fail with net.ErrClosed.
// Close does not wait.
func (c *Conn) Close() error {
	if c.closed.Swap(true) {
		return c.netError("close", net.ErrClosed)
	}
	runOnLoop(c.loop(), c.closeOnLoop) // a closed loop has closed the connection
	return nil
}

// closeOnLoop closes the connection. Loop goroutine only.
func (c *Conn) closeOnLoop() {
	c.closed.Store(true)
	c.closeSocket()
}

// closeSocket closes the descriptor and ends pending calls.
func (c *Conn) closeSocket() {
	c.socket.Close()
	c.reads.close()
	c.writes.close()
}

// CloseWrite closes the writing side: the peer reads the end of the stream.
func (c *Conn) CloseWrite() error {
	return c.onLoop("close", func() error {
		if c.socket.WriteOnly() && !c.socket.Shut() {
			c.closeSocket() // the reader of a pipe sees the end only when the descriptor closes
			return nil
		}
		err := c.socket.CloseWrite()
		c.writes.wake(nil)
		return err
	})
}

// CloseRead closes the reading side.
func (c *Conn) CloseRead() error {
	return c.onLoop("close", func() error {
		err := c.socket.CloseRead()
		c.reads.wake(nil)
		return err
	})
}

// onLoop runs a call that does not wait. A caller on the loop runs it directly;
// another goroutine waits for the loop to run it.
func (c *Conn) onLoop(op string, call func() error) error {
	do := func() error {
		if c.closed.Load() {
			return net.ErrClosed
		}
		return call()
	}
	if c.loop().Owns() {
		return c.netError(op, do())
	}
	_, err := c.fromGoroutine(op, func(context.Context) (int, error) { return 0, do() })
	return err
}

// netError returns err as package net would: wrapped in a *net.OpError, except for
// io.EOF and cancellations.
func (c *Conn) netError(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return c.opError(op, err)
}

func (c *Conn) opError(op string, err error) error {
	var canceled *spindle.Canceled
	if errors.As(err, &canceled) {
		return err
	}
	a := c.addrs.Load()
	if a == nil {
		a = &addrs{}
	}
	return sock.Error(op, c.network(a.local), a.local, a.remote, err)
}
