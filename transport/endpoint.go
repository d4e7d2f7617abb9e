package transport

import (
	"net"
	"net/netip"
	"syscall"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/loop"
)

// Endpoint sends and receives datagrams. Datagram makes one. Like a Conn it is for
// callbacks of its loop.
type Endpoint struct {
	socket    socket
	st        *station
	proto     DatagramProtocol
	network   string
	family    kernel.Family
	connected bool
	file      sock.File

	queue     []datagram // waits for room
	size      int        // bytes of it
	high, low int        // water marks; 0 means the usual ones
	rests     loop.Timer
	readsOn   func() // readOn, made once

	in, out uint64 // bytes
	state   connState
}

// datagram is one that waits to be sent.
type datagram struct {
	data []byte
	to   kernel.Addr
}

func (e *Endpoint) is(s connState) bool { return e.state&s != 0 }

func (e *Endpoint) only(op string) {
	if e.st.hub.L.Foreign() {
		panic("transport: " + op + " called from a goroutine that is not the loop's; use Post")
	}
}

// begin is the first turn of the endpoint.
func (e *Endpoint) begin() {
	e.state &^= unmade
	e.guarded(func() {
		e.proto.ConnectionMade(e)
		e.read()
	})
}

// guarded ends the endpoint if a callback panics; the loop's OnPanic hears of it.
func (e *Endpoint) guarded(fn func()) {
	returned := false
	defer func() {
		if !returned {
			e.lose(errPanicked)
		}
	}()
	fn()
	returned = true
}

// endpointOwner is what an Endpoint is to its socket.
type endpointOwner Endpoint

// SocketReady sends and receives what has become possible.
func (o *endpointOwner) SocketReady() {
	e := (*Endpoint)(o)
	e.guarded(func() {
		if len(e.queue) > 0 && e.socket.Writable() {
			e.drain()
		}
		e.read()
	})
}

// SocketOrphaned is called when the loop is closed.
func (o *endpointOwner) SocketOrphaned() {
	e := (*Endpoint)(o)
	e.file.Remove(e.st.hub.K)
	if !e.is(lost | unmade) {
		e.state |= lost
		e.proto.ConnectionLost(e, net.ErrClosed)
	}
}

// maxDatagrams is how many are received before others have a turn.
const maxDatagrams = 64

func (e *Endpoint) read() {
	for range maxDatagrams {
		if e.is(unmade|closing|lost) || !e.socket.Readable() {
			return
		}
		buf := e.st.hub.Buf
		n, from, truncated, err := e.socket.RecvFrom(buf)
		switch {
		case err == nil:
			e.in += uint64(n)
			e.proto.DatagramReceived(e, Packet{buf[:n], addrOf(from), truncated})
			e.st.hub.Poison(buf[:n])
		case err == errAgain:
			return
		case isFatal(err):
			e.lose(e.fault("read", err))
			return
		default:
			e.proto.ErrorReceived(e, e.fault("read", err))
		}
	}
	if !e.is(busy) {
		e.state |= busy
		e.st.hub.L.CallSoonWith(loop.DropAtClose, e.readsOn)
	}
}

func (e *Endpoint) readOn() {
	e.state &^= busy
	(*endpointOwner)(e).SocketReady()
}

// isFatal tells an error of the socket itself from one about a datagram. The
// former would come again with every call.
func isFatal(err error) bool {
	switch err {
	case syscall.EBADF, syscall.ENOTSOCK, syscall.EINVAL, syscall.EOPNOTSUPP:
		return true
	}
	_, ok := err.(syscall.Errno)
	return !ok
}

func addrOf(a kernel.Addr) Addr {
	if ip := a.Addr(); ip.Is4In6() {
		return Addr{AddrPort: netip.AddrPortFrom(ip.Unmap(), a.Port())}
	}
	return Addr{AddrPort: a.AddrPort, Path: a.Path}
}

// Close ends the endpoint once everything was sent. Nothing more is received.
// Closing again does nothing.
func (e *Endpoint) Close() error {
	e.only("Close")
	if e.is(closing | lost) {
		return nil
	}
	e.state |= closing
	e.socket.PauseReading()
	if len(e.queue) == 0 {
		e.lose(nil)
	}
	return nil
}

// Abort ends the endpoint at once. What waits to be sent is dropped.
func (e *Endpoint) Abort() {
	e.only("Abort")
	e.lose(nil)
}

// lose ends the endpoint, and has the protocol told.
func (e *Endpoint) lose(err error) {
	if e.is(lost) {
		return
	}
	e.state |= lost
	e.rests.Cancel()
	e.socket.Close()
	if gone := e.file.Remove(e.st.hub.K); err == nil {
		err = gone
	}
	e.queue, e.size = nil, 0
	e.st.hub.L.CallSoonWith(loop.RunAtClose, func() {
		if !e.is(unmade) {
			e.proto.ConnectionLost(e, err)
		}
	})
}

func (e *Endpoint) fault(op string, err error) error { return e.faultTo(op, Addr{}, err) }

func (e *Endpoint) faultTo(op string, to Addr, err error) error {
	if err == nil {
		return nil
	}
	local, remote := e.addrs()
	if to != (Addr{}) {
		remote = sock.NetAddr(e.network, kernel.Addr{AddrPort: to.AddrPort, Path: to.Path})
	}
	return sock.Error(op, e.network, local, remote, err)
}

// Loop is the loop that the endpoint is on.
func (e *Endpoint) Loop() *loop.Loop { return e.st.hub.L }

// IsClosing tells whether the endpoint was closed, or is about to be.
func (e *Endpoint) IsClosing() bool { return e.is(closing | lost) }

// LocalAddr is the address that the endpoint receives at. It is never nil: once the
// endpoint is lost, it is one that names nothing.
func (e *Endpoint) LocalAddr() net.Addr {
	if local, _ := e.addrs(); local != nil {
		return local
	}
	return sock.NetAddr(e.network, kernel.Addr{})
}

// RemoteAddr is the address of the connected peer; nil if there is none.
func (e *Endpoint) RemoteAddr() net.Addr {
	_, remote := e.addrs()
	return remote
}

func (e *Endpoint) addrs() (local, remote net.Addr) {
	fd := e.socket.FD()
	if fd < 0 {
		return nil, nil
	}
	return e.st.hub.Addrs(fd, e.network)
}

// Info tells how the endpoint is now; In and Out are bytes of datagrams.
func (e *Endpoint) Info() Info {
	e.only("Info")
	info := Info{In: e.in, Out: e.out, Unsent: e.size, Reading: !e.is(closing | lost), Closing: e.IsClosing()}
	info.Local, info.Remote = e.LocalAddr(), e.RemoteAddr()
	return info
}

// SetReadBuffer sets the size of the system's receive buffer. Datagrams that arrive
// while it is full are lost.
func (e *Endpoint) SetReadBuffer(bytes int) error { return e.setOption(kernel.RecvBuffer, bytes) }

// SetWriteBuffer sets the size of the system's send buffer. Datagrams for which it has
// no room wait in the Endpoint's queue.
func (e *Endpoint) SetWriteBuffer(bytes int) error { return e.setOption(kernel.SendBuffer, bytes) }

func (e *Endpoint) setOption(o kernel.Option, value int) error {
	e.only("an option's setting")
	fd := e.socket.FD()
	if fd < 0 {
		return e.fault("set", net.ErrClosed)
	}
	return e.fault("set", e.st.hub.K.SetOption(fd, o, value))
}
