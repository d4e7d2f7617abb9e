package stream

import (
	"context"
	"os"
	"unsafe"

	"github.com/spindleloop/spindle"
)

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
		if err = c.waitToWrite(ctx, "Conn.Write", len(p)-n); err == nil {
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

// waitToWrite parks the task that holds c.writes until the socket may be writable. The task
// has left more bytes to write, which an inspector shows.
func (c *Conn) waitToWrite(ctx context.Context, what string, left int) error {
	st := loopStateOf(c.loop())
	if st.unsent == nil {
		st.unsent = make(map[*Conn]int)
	}
	st.unsent[c] = left
	defer delete(st.unsent, c)
	return c.writes.wait(ctx, what)
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

// Writev writes several buffers as one Write would: their bytes stay together, with
// as few system calls as possible. It does not modify bufs. (net.Buffers.WriteTo
// does this only for net's own types; for a Conn it writes one buffer after the
// other.)
func (c *Conn) Writev(bufs [][]byte) (n int, err error) {
	ctx := c.here()
	if ctx == nil {
		n, err := runInTask(c.loop(), c.nursery, "Conn.Writev",
			func(ctx context.Context) (int, error) { return c.writev(ctx, bufs) })
		return n, c.netError("write", err)
	}
	return c.writev(ctx, bufs)
}

func (c *Conn) writev(ctx context.Context, bufs [][]byte) (n int, err error) {
	if err := spindle.Checkpoint(ctx); err != nil {
		return 0, err
	}
	rest := c.copyBuffers(bufs)
	left := 0
	for _, p := range rest {
		left += len(p)
	}
	err = c.writeAll(ctx, "Conn.Writev", func() (int, error) {
		m, err := c.socket.Writev(rest)
		n += max(m, 0)
		rest = consume(rest, max(m, 0))
		return left - n, err
	})
	return n, c.netError("write", err)
}

// writeAll calls step until it reports that no bytes are left to write, or fails. It waits
// while the socket's buffer is full.
func (c *Conn) writeAll(ctx context.Context, what string, step func() (left int, err error)) error {
	err := c.writes.acquire(ctx, what)
	if err != nil {
		return err
	}
	waited := false
	for {
		left := 0
		if c.writes.expired() {
			err = os.ErrDeadlineExceeded
		} else {
			left, err = step()
		}
		if left == 0 || err != nil {
			break
		}
		if c.socket.Writable() { // a step writes as much as one system call takes
			continue
		}
		waited = true
		if err = c.waitToWrite(ctx, what, left); err != nil {
			break
		}
	}
	if waited {
		if e := c.socket.UnwatchWritable(); err == nil {
			err = e
		}
	}
	c.writes.release()
	return err
}

// copyBuffers returns a slice of the non-empty buffers that the caller may modify.
// It copies borrowed bytes, because Writev may wait.
func (c *Conn) copyBuffers(bufs [][]byte) [][]byte {
	owned := make([][]byte, 0, len(bufs))
	for _, p := range bufs {
		if c.borrowed(p) {
			p = append([]byte(nil), p...)
		}
		if len(p) > 0 {
			owned = append(owned, p)
		}
	}
	return owned
}

// consume returns the buffers without their first n bytes.
func consume(bufs [][]byte, n int) [][]byte {
	for len(bufs) > 0 && n >= len(bufs[0]) {
		n -= len(bufs[0])
		bufs = bufs[1:]
	}
	if len(bufs) > 0 {
		bufs[0] = bufs[0][n:]
	}
	return bufs
}
