package transport

import (
	"net"

	"github.com/spindleloop/spindle/internal/kernel"
)

// Info is what there is to know of a connection.
type Info struct {
	Local, Remote net.Addr
	In, Out       uint64 // bytes received and sent; of TLS, In is as they came over the network
	Unsent        int    // bytes that wait to be sent
	Reading       bool   // false after PauseReading
	Closing       bool
}

// Info tells how the connection is now.
func (c *Conn) Info() Info {
	c.only("Info")
	info := Info{In: c.in, Out: c.out, Unsent: c.waiting(), Reading: !c.is(pausedReading), Closing: c.is(closing | lost)}
	info.Local, info.Remote = c.ends()
	return info
}

// SetNoDelay has small writes be sent at once (true, the default for TCP) or
// collected by the system.
func (c *Conn) SetNoDelay(on bool) error { return c.setOption(kernel.NoDelay, flag(on)) }

// SetKeepAlive has the system ask a silent peer whether it is still there.
func (c *Conn) SetKeepAlive(on bool) error { return c.setOption(kernel.KeepAlive, flag(on)) }

// SetReadBuffer sets how much the system receives ahead.
func (c *Conn) SetReadBuffer(bytes int) error { return c.setOption(kernel.RecvBuffer, bytes) }

// SetWriteBuffer sets how much the system takes to send.
func (c *Conn) SetWriteBuffer(bytes int) error { return c.setOption(kernel.SendBuffer, bytes) }

// SetLinger sets what closing does with what the system has not sent: it is sent
// in the background (negative), dropped, and the peer reset (0), or waited for: by
// the whole loop, for so many seconds.
func (c *Conn) SetLinger(seconds int) error { return c.setOption(kernel.LingerSeconds, seconds) }

func (c *Conn) setOption(o kernel.Option, value int) error {
	c.only("an option's setting")
	fd := c.socket.FD()
	if fd < 0 {
		return net.ErrClosed
	}
	return c.fault("set", c.st.hub.K.SetOption(fd, o, value))
}

func flag(on bool) int {
	if on {
		return 1
	}
	return 0
}
