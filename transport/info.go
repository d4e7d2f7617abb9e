package transport

import (
	"net"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/sock"
)

// Info describes the state of a Conn or an Endpoint.
type Info struct {
	Local, Remote net.Addr
	In, Out       uint64 // bytes received and sent; with TLS, In counts encrypted bytes
	Unsent        int    // queued bytes
	Reading       bool   // false after PauseReading
	Closing       bool
}

// Info returns the current state of the connection.
func (c *Conn) Info() Info {
	c.checkLoop("Info")
	info := Info{In: c.in, Out: c.out, Unsent: c.unsentBytes(), Reading: !c.is(pausedReading), Closing: c.phase.closing()}
	info.Local, info.Remote = c.addrsOrUnknown()
	return info
}

// SetNoDelay sets whether the system sends small writes at once (the default for TCP)
// or collects them (Nagle's algorithm).
func (c *Conn) SetNoDelay(on bool) error { return c.setOption(kernel.NoDelay, flag(on)) }

// SetKeepAlive sets whether the system probes a silent peer.
func (c *Conn) SetKeepAlive(on bool) error { return c.setOption(kernel.KeepAlive, flag(on)) }

// SetBuffers sets the sizes of the system's receive and send buffers. Zero leaves one as it is.
func (c *Conn) SetBuffers(read, write int) error {
	return setBuffers(read, write, c.setOption)
}

func setBuffers(read, write int, set func(o kernel.Option, value int) error) error {
	if read != 0 {
		if err := set(kernel.RecvBuffer, read); err != nil {
			return err
		}
	}
	if write != 0 {
		return set(kernel.SendBuffer, write)
	}
	return nil
}

// SetLinger sets what closing does with bytes that the system has not sent. If seconds
// is negative they are sent in the background. If it is zero they are dropped and the
// connection is reset. Otherwise closing blocks the whole loop for up to that long.
func (c *Conn) SetLinger(seconds int) error { return c.setOption(kernel.LingerSeconds, seconds) }

func (c *Conn) setOption(o kernel.Option, value int) error {
	c.checkLoop("an option's setting")
	fd := c.socket.FD()
	if fd < 0 {
		return c.opError("set", net.ErrClosed)
	}
	return c.opError("set", c.st.sockets.K.SetOption(fd, o, value))
}

func flag(on bool) int {
	if on {
		return 1
	}
	return 0
}

func (c *Conn) addrs() (local, remote net.Addr) {
	fd := c.socket.FD()
	if fd < 0 {
		return nil, nil
	}
	return c.st.sockets.Addrs(fd, c.network())
}

func (c *Conn) network() string {
	fd := c.socket.FD()
	if fd < 0 {
		return ""
	}
	a, err := c.st.sockets.K.LocalAddr(fd)
	if err != nil {
		return "pipe"
	}
	return sock.NetworkOf(a.Family(), kernel.Stream)
}

// LocalAddr returns the address of this end. It is never nil: once the connection is
// lost, it is an empty address, ":0" for TCP.
func (c *Conn) LocalAddr() net.Addr {
	c.checkLoop("LocalAddr")
	local, _ := c.addrsOrUnknown()
	return local
}

// RemoteAddr returns the address of the peer. It is never nil: once the connection is
// lost or the peer has reset it, which may be before ConnectionMade, it is an empty
// address, ":0" for TCP.
func (c *Conn) RemoteAddr() net.Addr {
	c.checkLoop("RemoteAddr")
	_, remote := c.addrsOrUnknown()
	return remote
}

// addrsOrUnknown returns the addresses, empty ones where they are not known.
func (c *Conn) addrsOrUnknown() (local, remote net.Addr) {
	local, remote = c.addrs()
	if local == nil {
		local = c.socket.UnknownAddr()
	}
	if remote == nil {
		remote = c.socket.UnknownAddr()
	}
	return local, remote
}
