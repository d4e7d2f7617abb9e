package stream

import (
	"context"
	"os"

	"github.com/spindleloop/spindle"
)

// Writev writes several buffers as one Write would: their bytes stay together, with
// as few system calls as possible. It does not modify bufs. (net.Buffers.WriteTo
// does this only for net's own types; for a Conn it writes one buffer after the
// other.)
func (c *Conn) Writev(bufs [][]byte) (n int64, err error) {
	ctx := c.here()
	if ctx == nil {
		n, err := runInTask(c.loop(), c.nursery, "Conn.Writev",
			func(ctx context.Context) (int64, error) { return c.writev(ctx, bufs) })
		return n, c.netError("write", err)
	}
	return c.writev(ctx, bufs)
}

func (c *Conn) writev(ctx context.Context, bufs [][]byte) (n int64, err error) {
	if err := spindle.Checkpoint(ctx); err != nil {
		return 0, err
	}
	rest := c.copyBuffers(bufs)
	if err := c.writes.acquire(ctx, "Conn.Writev"); err != nil {
		return 0, err
	}
	waited := false
	for {
		m := 0
		if c.writes.expired() {
			err = os.ErrDeadlineExceeded
		} else {
			m, err = c.socket.Writev(rest)
			m = max(m, 0)
		}
		n += int64(m)
		if rest = consume(rest, m); len(rest) == 0 || err != nil {
			break
		}
		if c.socket.Writable() { // more buffers than one system call takes
			continue
		}
		waited = true
		if err = c.writes.wait(ctx, "Conn.Writev"); err != nil {
			break
		}
	}
	if waited {
		if e := c.socket.UnwatchWritable(); err == nil {
			err = e
		}
	}
	c.writes.release()
	return n, c.netError("write", err)
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
