package stream

import (
	"context"
	"os"

	"github.com/spindleloop/spindle"
)

// Writev is Write of several buffers as one: they stay together, in as few calls
// of the system as it takes. The buffers are as they were when it returns. (That
// net.Buffers.WriteTo does the same is a secret between it and net's own types: for
// a Conn it writes one buffer after the other.)
func (c *Conn) Writev(bufs [][]byte) (n int64, err error) {
	ctx := c.home.Here()
	if ctx == nil {
		n, err := inTask(c.loop(), c.home, "Conn.Writev of a goroutine",
			func(ctx context.Context) (int64, error) { return c.writev(ctx, bufs) })
		return n, c.fault("write", err)
	}
	return c.writev(ctx, bufs)
}

func (c *Conn) writev(ctx context.Context, bufs [][]byte) (n int64, err error) {
	if err := spindle.Checkpoint(ctx); err != nil {
		return 0, err
	}
	left := c.own(bufs)
	if err := c.writes.enter(ctx, "Conn.Writev"); err != nil {
		return 0, err
	}
	waited := false
	for {
		m := 0
		if c.writes.expired() {
			err = os.ErrDeadlineExceeded
		} else {
			m, err = c.socket.Writev(left)
			m = max(m, 0)
		}
		n += int64(m)
		if left = skip(left, m); len(left) == 0 || err != nil {
			break
		}
		if c.socket.Writable() { // there were more than the system takes at once
			continue
		}
		waited = true
		if err = c.writes.begin(ctx, nil); err == nil {
			err = c.writes.waker.Park(ctx, "Conn.Writev", &c.writes)
		}
		if err != nil {
			break
		}
	}
	if waited {
		if e := c.socket.UnwatchWritable(); err == nil {
			err = e
		}
	}
	c.writes.leave()
	return n, c.fault("write", err)
}

// own is the buffers in a slice that may be changed, without those that are empty.
// What was lent is copied: this may wait.
func (c *Conn) own(bufs [][]byte) [][]byte {
	left := make([][]byte, 0, len(bufs))
	for _, p := range bufs {
		if c.lent(p) {
			p = append([]byte(nil), p...)
		}
		if len(p) > 0 {
			left = append(left, p)
		}
	}
	return left
}

// skip is what is left of the buffers behind the first n bytes.
func skip(bufs [][]byte, n int) [][]byte {
	for len(bufs) > 0 && n >= len(bufs[0]) {
		n -= len(bufs[0])
		bufs = bufs[1:]
	}
	if len(bufs) > 0 {
		bufs[0] = bufs[0][n:]
	}
	return bufs
}

// Cred is who is at the other end of a Unix socket.
type Cred struct {
	PID      int // the process that connected or listened
	UID, GID int // on whose behalf it did
}

// PeerCred asks the system who is at the other end of a Unix socket. The answer was
// true when the connection was made. It is for Linux; elsewhere, and for a
// connection of another kind, it fails with what is errors.ErrUnsupported.
func (c *Conn) PeerCred() (cred Cred, err error) {
	err = c.quick("get", func() error {
		k, err := c.hub().K.Native().PeerCred(c.socket.FD())
		cred = Cred(k)
		return err
	})
	return cred, err
}
