package nats

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
)

// conn is a connection to a server with a Write that does not wait. The client of NATS writes
// while it holds the mutex that publishing needs. So tasks can publish without a goroutine
// between them and the client, and do not block their loop when the server is slow: what the
// socket does not take is written later.
//
// The client has a goroutine of its own that writes what others have published. With a buffer of
// one byte it calls Write for each message instead, on the goroutine that publishes. A message that
// comes alone is then written at once, without a switch to another goroutine. Messages that come
// together are written together.
type conn struct {
	net.Conn
	raw syscall.RawConn

	unsent atomic.Int64 // bytes in pending, and those that flush writes
	joined atomic.Bool  // the client is connected by it: before, it holds its mutex
	lost   atomic.Bool  // the client will connect again, with its mutex held

	mu      sync.Mutex
	pending []byte    // guarded by mu, as all below
	spare   []byte    // what flush has written, to be used again
	writing bool      // a goroutine is in flush
	last    time.Time // of Write
	err     error
	space   sync.Cond
}

// dialer makes connections of the type conn.
type dialer struct {
	net.Dialer
	latest *atomic.Pointer[conn]
}

// Dial is for the client of NATS.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	made, err := d.Dialer.Dial(network, address)
	if err != nil {
		return nil, err
	}
	raw, err := made.(syscall.Conn).SyscallConn() // TCP has it
	if err != nil {
		made.Close()
		return nil, err
	}
	c := &conn{Conn: made, raw: raw}
	c.space.L = &c.mu
	d.latest.Store(c)
	return c, nil
}

// dialing returns the option that makes the client use conns. It has no effect if the program has
// its own way to connect.
func (b *Bus) dialing() nats.Option {
	return func(o *nats.Options) error {
		if o.CustomDialer == nil && o.InProcessServer == nil {
			o.CustomDialer = &dialer{net.Dialer{Timeout: o.Timeout}, &b.conn}
			o.FlusherTimeout = 0                     // a Write does not wait, so it needs no deadline
			if o.WriteBufferSize == 0 && !o.Secure { // with TLS, each write is a record
				o.WriteBufferSize = 1
			}
		}
		return nil
	}
}

// together is the time between two messages that are written together.
const together = 20 * time.Microsecond

// Write writes what the socket takes now, and keeps the rest for flush.
func (c *conn) Write(p []byte) (n int, err error) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	alone := now.Sub(c.last) > together
	c.last = now
	if c.err == nil && !c.writing && alone {
		n, c.err = c.tryWrite(p)
	}
	if c.err != nil {
		c.lost.Store(true)
		return n, fmt.Errorf("%w: %w", nats.ErrDisconnected, c.err) // which publishing fails with
	}
	if n == len(p) {
		return n, nil
	}
	c.pending = append(c.pending, p[n:]...)
	c.unsent.Add(int64(len(p) - n))
	if !c.writing {
		c.writing = true
		go c.flush()
	}
	return len(p), nil
}

// tryWrite writes what the socket takes without waiting.
func (c *conn) tryWrite(p []byte) (n int, err error) {
	failed := c.raw.Write(func(fd uintptr) bool {
		n, err = syscall.Write(int(fd), p)
		return true // do not wait
	})
	if failed != nil {
		return 0, failed
	}
	if err == syscall.EAGAIN || err == syscall.EINTR {
		return max(n, 0), nil
	}
	return max(n, 0), err
}

// flush writes what is pending, and waits for the socket.
func (c *conn) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.pending) > 0 && c.err == nil {
		b := c.pending
		c.pending, c.spare = c.spare[:0], nil
		c.mu.Unlock()
		_, err := c.Conn.Write(b)
		c.mu.Lock()
		c.unsent.Add(-int64(len(b)))
		if cap(b) <= fewUnsent {
			c.spare = b
		}
		if err != nil {
			c.err = err
			c.lost.Store(true)
		}
		c.space.Broadcast()
	}
	c.writing = false
}

// SetWriteDeadline does nothing: Write does not wait, and a deadline must not end flush. The
// client notices by its pings that a server reads nothing.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

// Read notes the end of the connection, before the client does.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.lost.Store(true)
	}
	return n, err
}

// Close closes the connection. What is pending is lost.
func (c *conn) Close() error {
	c.lost.Store(true)
	err := c.Conn.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = net.ErrClosed
	}
	c.space.Broadcast()
	return err
}

// mostUnsent is how many bytes wait for the socket before publishers do.
const mostUnsent = 1 << 20

// await waits until there is space for more. It is not for tasks.
func (c *conn) await() {
	if c.unsent.Load() < mostUnsent {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.unsent.Load() >= mostUnsent && c.err == nil {
		c.space.Wait()
	}
}

// fewUnsent is how many bytes may wait for the socket when a task publishes by the client itself.
const fewUnsent = 64 << 10

// isDirect reports whether a task may publish by the client itself: that does not wait now, and
// no envelope is before it in the outbox.
func (b *Bus) isDirect() bool {
	c := b.conn.Load()
	return c != nil && c.joined.Load() && !c.lost.Load() && c.unsent.Load() < fewUnsent && b.handing.Load() == 0
}
