package transport

import (
	"net"
	"net/netip"
	"syscall"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/loop"
)

// Endpoint sends and receives datagrams. Datagram makes one. Like a Conn, it is used
// from callbacks of its loop only.
type Endpoint struct {
	socket    socket
	st        *loopState
	proto     DatagramProtocol
	network   string
	family    kernel.Family
	connected bool
	file      sock.File

	queue       []datagram // unsent datagrams
	queuedBytes int
	high, low   int        // water marks; 0 means the defaults
	retry       loop.Timer // see backOff
	againFunc   func()     // the method value again, allocated once

	in, out     uint64 // bytes
	phase       phase
	announced   bool // ConnectionMade was called
	paused      bool // more than the high water mark was queued, and not yet less than the low one
	againQueued bool // a call of again is queued
}

// datagram is an unsent datagram.
type datagram struct {
	data []byte
	to   kernel.Addr
}

func (e *Endpoint) checkLoop(op string) {
	if e.st.sockets.L.Internal().Foreign() {
		panic("transport: " + op + " called from a goroutine that is not the loop's; use Post")
	}
}

// start calls ConnectionMade and starts to send and receive, in the turn after Datagram.
func (e *Endpoint) start() {
	e.announced = true
	e.guard(func() { e.proto.ConnectionMade(e) })
	e.proceed()
}

// guard calls fn. If a callback in it panics, the endpoint is lost; the panic continues
// to the loop's OnPanic.
func (e *Endpoint) guard(fn func()) {
	returned := false
	defer func() {
		if !returned {
			e.lose(errPanicked)
		}
	}()
	fn()
	returned = true
}

// endpointOwner is the sock.Owner of an Endpoint.
type endpointOwner Endpoint

// Ready is called by the loop.
func (o *endpointOwner) Ready(r loop.Ready) {
	o.socket.Note(r)
	(*Endpoint)(o).proceed()
}

// Socket returns the socket.
func (o *endpointOwner) Socket() *sock.Conn { return &o.socket.Conn }

// proceed sends and receives as far as the socket allows. It does nothing before
// ConnectionMade was called.
func (e *Endpoint) proceed() {
	if !e.announced {
		return
	}
	e.guard(func() {
		if len(e.queue) > 0 && e.socket.Writable() {
			e.drain()
		}
		e.read()
	})
}

// SocketOrphaned is called when the loop is closed.
func (o *endpointOwner) SocketOrphaned() {
	e := (*Endpoint)(o)
	e.file.Remove(e.st.sockets.K)
	if e.announced && !e.phase.lost() {
		e.phase.enter(phaseFailed)
		e.proto.ConnectionLost(e, net.ErrClosed)
	}
}

// maxDatagrams limits the datagrams received before other callbacks run.
const maxDatagrams = 64

func (e *Endpoint) read() {
	for range maxDatagrams {
		if e.phase.closing() || !e.socket.Readable() {
			return
		}
		buf := e.st.sockets.Buf
		n, from, truncated, err := e.socket.RecvFrom(buf)
		switch {
		case err == nil:
			e.in += uint64(n)
			e.proto.DatagramReceived(e, Packet{buf[:n], addrOf(from), truncated})
			e.st.sockets.Poison(buf[:n])
		case err == errAgain:
			return
		case isFatal(err):
			e.lose(e.opError("read", err))
			return
		default:
			e.proto.ErrorReceived(e, e.opError("read", err))
		}
	}
	e.proceedSoon()
}

// proceedSoon calls proceed after the callbacks that are ready now.
func (e *Endpoint) proceedSoon() {
	if !e.againQueued {
		e.againQueued = true
		e.st.sockets.L.Internal().CallSoon(atclose.Drop, e.againFunc)
	}
}

func (e *Endpoint) again() {
	e.againQueued = false
	e.proceed()
}

// isFatal reports whether err is about the socket and not about one datagram. Every
// further call would return it again.
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

// Close ends the endpoint once all queued datagrams were sent. Nothing more is
// received. Closing again does nothing.
func (e *Endpoint) Close() error {
	e.checkLoop("Close")
	if e.phase.closing() {
		return nil
	}
	e.phase.enter(phaseClosing)
	e.socket.PauseReading()
	if len(e.queue) == 0 {
		e.lose(nil)
	}
	return nil
}

// Abort ends the endpoint at once. Queued datagrams are dropped.
func (e *Endpoint) Abort() {
	e.checkLoop("Abort")
	e.lose(nil)
}

// lose ends the endpoint and queues ConnectionLost.
func (e *Endpoint) lose(err error) {
	if e.phase.lost() {
		return
	}
	e.phase.enter(lostPhase(err))
	e.retry.Cancel()
	e.socket.Close()
	if removeErr := e.file.Remove(e.st.sockets.K); err == nil {
		err = removeErr
	}
	e.queue, e.queuedBytes = nil, 0
	e.st.sockets.L.Internal().CallSoon(atclose.Run, func() {
		if e.announced {
			e.proto.ConnectionLost(e, err)
		}
	})
}

func (e *Endpoint) opError(op string, err error) error { return e.opErrorTo(op, Addr{}, err) }

func (e *Endpoint) opErrorTo(op string, to Addr, err error) error {
	if err == nil {
		return nil
	}
	local, remote := e.addrs()
	if to != (Addr{}) {
		remote = sock.NetAddr(e.network, kernel.Addr{AddrPort: to.AddrPort, Path: to.Path})
	}
	return sock.Error(op, e.network, local, remote, err)
}

// localAddr returns the address that the endpoint receives at. Once the endpoint is lost, it is
// an empty address.
func (e *Endpoint) localAddr() net.Addr {
	if local, _ := e.addrs(); local != nil {
		return local
	}
	return sock.NetAddr(e.network, kernel.Addr{})
}

func (e *Endpoint) addrs() (local, remote net.Addr) {
	fd := e.socket.FD()
	if fd < 0 {
		return nil, nil
	}
	return e.st.sockets.Addrs(fd, e.network)
}

// Info returns the current state of the endpoint. In and Out count bytes of datagrams.
func (e *Endpoint) Info() Info {
	e.checkLoop("Info")
	info := Info{In: e.in, Out: e.out, Unsent: e.queuedBytes, Reading: !e.phase.closing(), Closing: e.phase.closing()}
	_, info.Remote = e.addrs()
	info.Local = e.localAddr()
	return info
}

func (e *Endpoint) setOption(o kernel.Option, value int) error {
	return e.st.sockets.K.SetOption(e.socket.FD(), o, value)
}
