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
// Tasks of other loops and goroutines that run no loop may call them too: a task of
// the loop makes the call meanwhile. A task of another loop is suspended, and can be
// cancelled, as if the connection were of its own loop. Close and the methods that set
// deadlines do not wait for the loop.
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
func (c *Conn) here() context.Context { return coro.Here(c.loop()) }

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

// direction is the reading or the writing half of a connection. It admits one call
// at a time and queues the others. Loop goroutine only.
//
//	                      ┌───────wake, Abort────────┐
//	                      ▼                          │
//	free ──acquire──▶ held ──beginWait──▶ waiting for the socket
//	  ▲                │ ▲
//	  └────release─────┘ └─release, if a call is queued, holds it for that call
type direction struct {
	holder *coro.Coro      // nil if free; held if its holder runs; the holder while it waits for the socket
	extra  *directionExtra // nil until a second call waits or a deadline is set
}

// held is the holder of a direction that does not wait for the socket.
var held = new(coro.Coro)

// acquire waits until the calling task holds the direction. Tasks hold it in the
// order of their calls.
func (d *direction) acquire(ctx context.Context, what string) error {
	if d.holder == nil {
		d.holder = held
		return nil
	}
	// release hands the direction over, so no other task can overtake the queue.
	return d.ensureExtra().queue.Wait(ctx, what)
}

// release hands the direction to the next task in the queue.
func (d *direction) release() {
	d.holder = nil
	if d.extra != nil && d.extra.queue.Wake(1) > 0 {
		d.holder = held
	}
}

// beginWait prepares a wait for the socket by the task that holds the direction. The
// caller parks next. Armed is the error of watching the socket, if that failed.
func (d *direction) beginWait(ctx context.Context, armed error) (w spindle.Waker, err error) {
	if armed != nil {
		return w, armed
	}
	returned := false
	defer func() {
		if !returned { // a panic, or the end of a task that outlived every cancellation
			d.release()
		}
	}()
	w, err = spindle.NewWaker(ctx)
	returned = true
	if err == nil {
		d.setWaiter(w)
	}
	return w, err
}

// wait parks the task that holds the direction until wake is called.
func (d *direction) wait(ctx context.Context, what string) error {
	w, err := d.beginWait(ctx, nil)
	if err != nil {
		return err
	}
	return w.Park(ctx, what, d)
}

// waitReadable parks the task that holds d until s may be readable. Conn.read and the
// like do the same inline, because each frame below an idle connection costs stack.
func (d *direction) waitReadable(ctx context.Context, s *socket, what string) error {
	err := s.ResumeReading()
	if err == nil {
		err = d.wait(ctx, what)
	}
	s.PauseReading()
	return err
}

// busy reports whether a call holds the direction.
func (d *direction) busy() bool { return d.holder != nil }

// waiting reports whether the holder waits for the socket.
func (d *direction) waiting() bool { return d.holder != nil && d.holder != held }

// setWaiter makes w the holder of the direction; w waits for the socket next.
func (d *direction) setWaiter(w spindle.Waker) { d.holder = coro.Waker(w).Coro() }

// Abort ends a wait because of a cancellation. It implements spindle.Aborter.
func (d *direction) Abort() bool {
	waiting := d.waiting()
	if waiting {
		d.holder = held
	}
	return waiting
}

// wake ends a wait for the socket with err.
func (d *direction) wake(err error) {
	if d.waiting() {
		c := d.holder
		d.holder = held
		c.End(err)
	}
}

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
	} else {
		w.Pass()
		if n, err = c.readNow(ctx, p); err != syscall.EAGAIN {
			return n, err
		}
		w, err = c.beginReadWait(ctx)
	}
	for err == nil {
		// The switch is made in this frame, not in a callee: idle connections wait
		// here, and each frame costs stack.
		var sw coro.Switch
		for sw, err = coro.Waker(w).Leave(ctx, "Conn.Read", &c.reads); sw != nil; sw, err = coro.Waker(w).Back() {
			sw()
		}
		c.socket.PauseReading()
		if err != nil {
			break
		}
		if n, err = c.socket.Read(p); err != syscall.EAGAIN {
			break
		}
		w, err = c.beginReadWait(ctx)
	}
	c.reads.release()
	return n, c.netError("read", err)
}

// mustWait reports whether a Read is known to wait for the socket without trying,
// and does not have to wait for another Read.
func (c *Conn) mustWait(p []byte) bool {
	return c.socket.Drained() && !c.reads.busy() && !c.reads.expired() && len(p) > 0
}

// readNow reads what the socket holds, when the Reads before it are done. If that is
// nothing, it returns EAGAIN, and the task still holds c.reads.
func (c *Conn) readNow(ctx context.Context, p []byte) (n int, err error) {
	if err := c.reads.acquire(ctx, "Conn.Read"); err != nil {
		return 0, err
	}
	if c.reads.expired() && len(p) > 0 {
		err = os.ErrDeadlineExceeded
	} else if n, err = c.socket.Read(p); err == syscall.EAGAIN {
		return 0, err
	}
	c.reads.release()
	return n, c.netError("read", err)
}

// beginReadWait prepares a wait until the socket may be readable, by the task that holds
// c.reads. The caller parks next, and then pauses reading. As in net, the deadline counts
// where a Read begins and where it waits: bytes that end a wait are returned even if the
// deadline has passed since then.
func (c *Conn) beginReadWait(ctx context.Context) (w spindle.Waker, err error) {
	if c.reads.expired() {
		return w, os.ErrDeadlineExceeded
	}
	if w, err = c.reads.beginWait(ctx, c.socket.ResumeReading()); err != nil {
		c.socket.PauseReading()
	}
	return w, err
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
