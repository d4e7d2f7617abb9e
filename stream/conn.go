// Package stream is I/O in the coroutine model: a Conn is an ordinary net.Conn
// whose calls wait without blocking the loop, so that code for net.Conn, io and
// bufio runs in tasks as it is.
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
// # In tasks and elsewhere
//
// Called by a task of its loop, a Conn, Listener or PacketConn suspends the task;
// when the scope that the task is in is cancelled, the call fails with it. A Read
// that was cancelled has consumed nothing; a Write tells how much went out.
//
// Called by any other goroutine, the call is done by a task of the loop, while
// the goroutine waits. Close and the setting of deadlines do not wait for the
// loop.
//
// Of several that read, or write, the first to come is the first to be served;
// what one Write writes stays together.
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
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/loop"
)

// Conn is a connection: a TCP or Unix socket, or a pipe. It is a net.Conn.
type Conn struct {
	socket socket
	home   *spindle.Nursery // whose tasks do the calls of other goroutines
	addrs  atomic.Pointer[addrs]
	reads  side
	writes side
	closed atomic.Bool // Close was called
	pipe   bool
	unix   bool // a Unix socket, as far as is known
}

// socket is a sock.Conn whose methods are not the Conn's.
type socket struct{ sock.Conn }

type addrs struct{ local, remote net.Addr }

var _ net.Conn = (*Conn)(nil)

// newConn makes the connection on fd, which it closes if it fails.
func newConn(home *spindle.Nursery, h *sock.Registry, fd int, kind sock.Kind) (*Conn, error) {
	c := &Conn{home: home, pipe: kind == sock.Pipe}
	if err := c.socket.Init(h, fd, kind, (*owner)(c)); err != nil {
		return nil, err
	}
	c.socket.PauseReading()
	return c, nil
}

func (c *Conn) hub() *sock.Registry { return c.socket.Registry() }
func (c *Conn) loop() *loop.Loop    { return c.hub().L }

// owner is what a Conn is to its socket.
type owner Conn

// SocketReady wakes who waits for what has become possible.
func (o *owner) SocketReady() {
	c := (*Conn)(o)
	if c.socket.Readable() {
		c.reads.wake(nil)
	}
	if c.socket.Writable() {
		c.writes.wake(nil)
	}
}

// SocketOrphaned is called when the loop is closed.
func (o *owner) SocketOrphaned() { (*Conn)(o).end() }

// Read reads what there is, up to len(p) bytes, waiting for some. At the end it
// fails with io.EOF.
func (c *Conn) Read(p []byte) (n int, err error) {
	ctx := c.home.Here()
	if ctx == nil {
		return c.abroad("read", func(ctx context.Context) (int, error) { return c.read(ctx, p) })
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
			return 0, c.fault("read", err)
		}
		c.reads.take(w)
		// The switch is made right here: servers spend their days waiting here.
		var sw spindle.Switch
		for sw, err = w.Leave(ctx, "Conn.Read", &c.reads); sw != nil; sw, err = w.Back() {
			sw()
		}
		c.socket.PauseReading()
	} else {
		w.Pass()
		if err := c.reads.enter(ctx, "Conn.Read"); err != nil {
			return 0, err
		}
	}
	if err == nil {
		n, err = c.tryRead(p)
	}
	for err == syscall.EAGAIN {
		if err = c.reads.begin(ctx, c.socket.ResumeReading()); err == nil {
			err = c.reads.waker.Park(ctx, "Conn.Read", &c.reads)
		}
		c.socket.PauseReading()
		if err == nil {
			n, err = c.tryRead(p)
		}
	}
	c.reads.leave()
	return n, c.fault("read", err)
}

// mustWait tells whether it is known without a try that a Read has to wait for the
// socket, and for nobody else.
func (c *Conn) mustWait(p []byte) bool {
	return c.socket.Drained() && !c.reads.busy && !c.reads.expired() && len(p) > 0
}

func (c *Conn) tryRead(p []byte) (int, error) {
	if len(p) == 0 && !c.socket.Closed() { // as net has it, whatever there is to read
		return 0, nil
	}
	if c.reads.expired() {
		return 0, os.ErrDeadlineExceeded
	}
	return c.socket.Read(p)
}

// ReadBorrow reads what there is into memory that all connections of the loop
// share, and lends it until the task's next call that may wait: so a connection
// that waits needs no buffer. That call may be a Write of what was lent. It is for
// tasks only.
func (c *Conn) ReadBorrow() ([]byte, error) {
	ctx := c.home.Here()
	if ctx == nil {
		panic("stream: ReadBorrow called from a goroutine that is not a task of the connection's loop")
	}
	buf := c.hub().Buf
	c.hub().Poison(buf)
	n, err := c.read(ctx, buf)
	return buf[:n], err
}

// Write writes all of p, waiting for room.
func (c *Conn) Write(p []byte) (n int, err error) {
	ctx := c.home.Here()
	if ctx == nil {
		return c.abroad("write", func(ctx context.Context) (int, error) { return c.write(ctx, p) })
	}
	return c.write(ctx, p)
}

func (c *Conn) write(ctx context.Context, p []byte) (n int, err error) {
	if ctx.Err() != nil {
		if err := spindle.Checkpoint(ctx); err != nil {
			return 0, err
		}
	}
	lent := c.lent(p)
	if lent && c.writes.busy { // others will use it while we wait
		p, lent = append([]byte(nil), p...), false
	}
	if err := c.writes.enter(ctx, "Conn.Write"); err != nil {
		return 0, err
	}
	n, err = c.tryWrite(p)
	if err == nil && n < len(p) {
		m := 0
		if lent {
			m, err = c.writeLent(ctx, p[n:])
		} else {
			m, err = c.writeOn(ctx, p[n:])
		}
		n += m
	}
	c.writes.leave()
	if err != nil {
		return n, c.fault("write", err)
	}
	if !lent && ctx.Err() == nil {
		spindle.Checkpoint(ctx) // what went out stays out, whatever comes now
	}
	return n, nil
}

func (c *Conn) tryWrite(p []byte) (int, error) {
	if c.writes.expired() {
		return 0, os.ErrDeadlineExceeded
	}
	return c.socket.Write(p)
}

// writeOn writes all of p, for which there is no room yet.
func (c *Conn) writeOn(ctx context.Context, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		if err = c.writes.begin(ctx, nil); err != nil {
			break
		}
		if err = c.writes.waker.Park(ctx, "Conn.Write", &c.writes); err == nil {
			var m int
			m, err = c.tryWrite(p[n:])
			n += m
		}
	}
	// Also when it has failed: nobody waits for room any more.
	if e := c.socket.UnwatchWritable(); err == nil {
		err = e
	}
	return n, err
}

// writeLent is writeOn of what others will write over while this waits.
func (c *Conn) writeLent(ctx context.Context, p []byte) (int, error) {
	st := stationOf(c.loop())
	buf := st.takeBuffer()
	n, err := c.writeOn(ctx, buf[:copy(buf, p)])
	st.giveBuffer(buf)
	return n, err
}

// lent tells whether p is in the memory that ReadBorrow lends.
func (c *Conn) lent(p []byte) bool {
	buf := c.hub().Buf
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(buf)))
	return uintptr(unsafe.Pointer(unsafe.SliceData(p)))-begin < uintptr(len(buf))
}

// Close closes the connection. Who waits in Read or Write fails with
// net.ErrClosed. It does not wait.
func (c *Conn) Close() error {
	if c.closed.Swap(true) {
		return c.fault("close", net.ErrClosed)
	}
	soon(c.loop(), c.end) // a loop that is closed has done it
	return nil
}

// end is Close on the loop.
func (c *Conn) end() {
	c.closed.Store(true)
	c.drop()
}

// drop closes the descriptor.
func (c *Conn) drop() {
	c.socket.Close()
	c.reads.stop()
	c.writes.stop()
}

// CloseWrite closes the writing side: the peer reads the end.
func (c *Conn) CloseWrite() error {
	return c.shut(func() error {
		if c.socket.WriteOnly() && !c.socket.Shut() {
			c.drop() // a pipe has no other way to tell its reader
			return nil
		}
		err := c.socket.CloseWrite()
		c.writes.wake(nil)
		return err
	})
}

// CloseRead closes the reading side.
func (c *Conn) CloseRead() error {
	return c.shut(func() error {
		err := c.socket.CloseRead()
		c.reads.wake(nil)
		return err
	})
}

func (c *Conn) shut(shut func() error) error { return c.quick("close", shut) }

// quick does a call that does not wait. Only a goroutine that is not on the loop
// has to wait for it.
func (c *Conn) quick(op string, call func() error) error {
	do := func() error {
		if c.closed.Load() {
			return net.ErrClosed
		}
		return call()
	}
	if c.loop().Owns() {
		return c.fault(op, do())
	}
	_, err := c.abroad(op, func(context.Context) (int, error) { return 0, do() })
	return err
}

// fault is a failure as package net would return it. The end of the stream and a
// cancellation are what they are.
func (c *Conn) fault(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return c.explain(op, err)
}

func (c *Conn) explain(op string, err error) error {
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

func (c *Conn) network(a net.Addr) string {
	switch {
	case c.pipe:
		return "pipe"
	case a != nil:
		return a.Network()
	case c.unix:
		return "unix"
	}
	return "tcp"
}

// LocalAddr is the address of this end.
func (c *Conn) LocalAddr() net.Addr { return c.bothAddrs().local }

// RemoteAddr is the address of the peer.
func (c *Conn) RemoteAddr() net.Addr { return c.bothAddrs().remote }

// bothAddrs asks the system for the addresses when they are first wanted: most
// servers never do. Of a connection that is closed by then they are not known.
func (c *Conn) bothAddrs() *addrs {
	if a := c.addrs.Load(); a != nil {
		return a
	}
	ask := func() {
		a := &addrs{}
		if fd := c.socket.FD(); fd >= 0 && !c.pipe {
			network := "tcp"
			if local, err := c.hub().K.LocalAddr(fd); err == nil {
				network = sock.NetworkOf(local.Family())
			}
			a.local, a.remote = c.hub().Addrs(fd, network)
		}
		unknown := sock.NetAddr(c.network(a.local), kernel.Addr{})
		if a.local == nil {
			a.local = unknown
		}
		if a.remote == nil {
			a.remote = unknown
		}
		c.addrs.CompareAndSwap(nil, a)
	}
	if c.loop().Owns() {
		ask()
	} else if _, err := c.abroad("get", func(context.Context) (int, error) { ask(); return 0, nil }); err != nil {
		unknown := sock.NetAddr(c.network(nil), kernel.Addr{})
		return &addrs{unknown, unknown}
	}
	return c.addrs.Load()
}
