package stream

import (
	"github.com/spindleloop/spindle/internal/kernel"
)

// The options below have the names that they have in package net. A goroutine that
// is not on the loop waits for it.

// SetNoDelay has what is written sent at once, and not held back to be sent with
// more. It is on unless it is turned off.
func (c *Conn) SetNoDelay(on bool) error { return c.setOption(kernel.NoDelay, oneIf(on)) }

// SetKeepAlive has the system find out whether the peer is still there when nothing
// has come for a long time.
func (c *Conn) SetKeepAlive(on bool) error { return c.setOption(kernel.KeepAlive, oneIf(on)) }

// SetReadBuffer sets how much the system keeps that was not read yet.
func (c *Conn) SetReadBuffer(bytes int) error { return c.setOption(kernel.RecvBuffer, bytes) }

// SetWriteBuffer sets how much the system keeps that was not sent yet.
func (c *Conn) SetWriteBuffer(bytes int) error { return c.setOption(kernel.SendBuffer, bytes) }

// SetLinger says what Close does with what was not sent yet: with sec < 0, as
// usual, the system sends it on; with 0 it is dropped and the connection reset;
// otherwise Close, and the loop with it, waits for at most so many seconds.
func (c *Conn) SetLinger(sec int) error { return c.setOption(kernel.LingerSeconds, sec) }

func oneIf(on bool) int {
	if on {
		return 1
	}
	return 0
}

func (c *Conn) setOption(o kernel.Option, value int) error {
	return c.quick("set", func() error { return c.hub().K.SetOption(c.socket.FD(), o, value) })
}
