package stream

import (
	"github.com/spindleloop/spindle/internal/kernel"
)

// The socket options below have the names they have in package net. A goroutine that
// is not on the loop waits for the loop to set them.

// SetNoDelay controls whether data is sent immediately (the default) or may be
// delayed to send fewer, larger segments.
func (c *Conn) SetNoDelay(on bool) error { return c.setOption(kernel.NoDelay, oneIf(on)) }

// SetKeepAlive controls whether the system probes an idle connection to detect that
// the peer is gone.
func (c *Conn) SetKeepAlive(on bool) error { return c.setOption(kernel.KeepAlive, oneIf(on)) }

// SetReadBuffer sets the size of the system's receive buffer.
func (c *Conn) SetReadBuffer(bytes int) error { return c.setOption(kernel.RecvBuffer, bytes) }

// SetWriteBuffer sets the size of the system's send buffer.
func (c *Conn) SetWriteBuffer(bytes int) error { return c.setOption(kernel.SendBuffer, bytes) }

// SetLinger sets what Close does with unsent data. With sec < 0, the default, the
// system sends it in the background. With sec == 0, the system discards it and
// resets the connection. With sec > 0, Close blocks, and the loop with it, for up to
// sec seconds.
func (c *Conn) SetLinger(sec int) error { return c.setOption(kernel.LingerSeconds, sec) }

func oneIf(on bool) int {
	if on {
		return 1
	}
	return 0
}

func (c *Conn) setOption(o kernel.Option, value int) error {
	return c.onLoop("set", func() error { return c.registry().K.SetOption(c.socket.FD(), o, value) })
}

// PeerCred returns the process at the other end of a Unix socket, its user and its group, as
// of when it connected or listened. On systems other than Linux, and for other connections,
// it fails with an error that wraps errors.ErrUnsupported.
func (c *Conn) PeerCred() (pid, uid, gid int, err error) {
	var cred kernel.Cred
	err = c.onLoop("get", func() (err error) {
		cred, err = c.registry().K.Native().PeerCred(c.socket.FD())
		return err
	})
	return cred.PID, cred.UID, cred.GID, err
}
