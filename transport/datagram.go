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

// DatagramProtocol receives the events of an Endpoint, on its loop.
type DatagramProtocol interface {
	// ConnectionMade is the first call.
	ConnectionMade(e *Endpoint)
	// DatagramReceived delivers a datagram.
	DatagramReceived(e *Endpoint, p Packet)
	// ErrorReceived reports that an earlier datagram could not be sent or
	// delivered. The most common error is ECONNREFUSED: the peer's machine
	// reports, some time later, that no socket receives where a connected
	// endpoint sends to. The endpoint stays open.
	ErrorReceived(e *Endpoint, err error)
	// ConnectionLost is the last call. err is nil if the endpoint was closed on
	// this side.
	ConnectionLost(e *Endpoint, err error)
}

// DatagramWritePauser is a DatagramProtocol that is notified when it sends faster than
// the system does.
type DatagramWritePauser interface {
	// PauseWriting is called when more bytes than the high water mark are queued.
	PauseWriting(e *Endpoint)
	// ResumeWriting is called when no more than the low water mark are queued.
	ResumeWriting(e *Endpoint)
}

// Packet is a received datagram.
type Packet struct {
	// Data is valid only during the call; copy what must be kept.
	Data []byte
	// From is the sender. It is the zero Addr for a Unix socket without a name.
	From Addr
	// Truncated reports that the datagram was longer than Data, and that the rest
	// is lost. Only Unix datagrams can be that long, beyond 64 KB.
	Truncated bool
}

// Addr is the source or destination of a datagram. The zero Addr is none.
type Addr struct {
	AddrPort netip.AddrPort // for UDP; an IPv4 address is never IPv4-mapped IPv6
	Path     string         // for Unix sockets; an abstract name begins with '@'
}

// String returns the address as package net prints it.
func (a Addr) String() string { return kernel.Addr{AddrPort: a.AddrPort, Path: a.Path}.String() }

// DatagramOptions configure an Endpoint. The zero value is a UDP endpoint on a free
// port that communicates with any peer.
//
// Compared with asyncio's create_datagram_endpoint, family is part of Network, flags for
// the look-up of names are missing, and for a proto other than UDP the socket is passed
// as Sock.
type DatagramOptions struct {
	// Network is "udp", "udp4", "udp6" or "unixgram". "" means "udp".
	Network string

	// Local is the address to receive at: host and port, or the path of a Unix
	// socket. Port 0 selects a free port, and an empty host means all addresses.
	// "" means any free port; a Unix socket then has no name, so peers cannot
	// reply.
	Local string

	// Remote connects the endpoint: it sends to and receives from this address
	// only. "" means any peer. Only a connected endpoint gets ECONNREFUSED when
	// no socket receives at the remote address.
	Remote string

	// ReusePort lets several endpoints receive at one address; the system
	// distributes senders over them.
	ReusePort bool

	// ReuseAddress sets SO_REUSEADDR, for several endpoints that receive one
	// multicast group and get every datagram each. For other addresses use
	// ReusePort: with ReuseAddress any program that sets the option too, of any
	// user, can take over the port.
	ReuseAddress bool

	// Broadcast permits sending to broadcast addresses.
	Broadcast bool

	// ReadBuffer and WriteBuffer are the sizes of the system's buffers in bytes. Zero leaves one
	// as it is. Datagrams that arrive while the read buffer is full are lost; datagrams that
	// do not fit in the write buffer wait in the queue of the Endpoint.
	ReadBuffer, WriteBuffer int

	// HighWater and LowWater are the water marks: PauseWriting is called above HighWater queued
	// bytes, ResumeWriting at LowWater or fewer. Each datagram counts 8 bytes more than it has,
	// as in asyncio, so that empty ones count, too. If HighWater is zero, they are 64 KB and 16 KB.
	HighWater, LowWater int

	// Sock is an existing socket: a *net.UDPConn, *net.UnixConn or *os.File. It
	// is duplicated; the original may be closed. Of the other options only the sizes of buffers
	// and the water marks may be set.
	Sock syscall.Conn
}

// Datagram makes an endpoint for datagrams, which calls p. It corresponds to asyncio's
// create_datagram_endpoint. Hosts must be addresses, because looking up a name would
// block; OpenDatagram takes names too. Errors are *net.OpErrors.
func Datagram(l *loop.Loop, p DatagramProtocol, o DatagramOptions) (*Endpoint, error) {
	if p == nil {
		panic("transport: Datagram with a nil DatagramProtocol")
	}
	sizes := DatagramOptions{ReadBuffer: o.ReadBuffer, WriteBuffer: o.WriteBuffer, HighWater: o.HighWater, LowWater: o.LowWater, Sock: o.Sock}
	if o.Sock != nil && o != sizes {
		panic("transport: Datagram with a Sock and an address or options of one")
	}
	if o.LowWater < 0 || o.HighWater <= o.LowWater && o.HighWater|o.LowWater != 0 {
		panic("transport: Datagram needs 0 <= LowWater < HighWater")
	}
	e := &Endpoint{st: loopStateOf("Datagram", l), proto: p, network: o.Network, high: o.HighWater, low: o.LowWater}
	if e.network == "" {
		e.network = "udp"
	}
	e.againFunc = e.again
	fd, err := e.open(o)
	if err == nil {
		if err = e.socket.Init(e.st.sockets, fd, sock.Socket, (*endpointOwner)(e)); err == nil {
			if err = setBuffers(o.ReadBuffer, o.WriteBuffer, e.setOption); err != nil {
				e.socket.Close()
			}
		}
		if err != nil {
			e.file.Remove(e.st.sockets.K)
		}
	}
	if err != nil {
		return nil, sock.Error("listen", e.network, nil, nil, err)
	}
	e.st.sockets.L.Internal().CallSoon(atclose.Drop, e.start)
	return e, nil
}

func (e *Endpoint) open(o DatagramOptions) (fd int, err error) {
	sockets := e.st.sockets
	if o.Sock != nil {
		return e.adopt(o.Sock)
	}
	b, err := sock.ParseDatagram(e.network, o.Local, o.Remote)
	if err != nil {
		return -1, err
	}
	b.ReusePort, b.ReuseAddress, b.Broadcast = o.ReusePort, o.ReuseAddress, o.Broadcast
	fd, err = sockets.Datagram(b)
	if err == syscall.EAFNOSUPPORT || err == syscall.EADDRNOTAVAIL {
		if older, ok := b.WithoutIPv6(e.network, o.Local); ok {
			b = older
			fd, err = sockets.Datagram(b)
		}
	}
	if err != nil {
		return -1, sock.Error("listen", e.network, addrOrNil(e.network, b.Local), addrOrNil(e.network, b.Remote), err)
	}
	e.family, e.connected = b.Family, b.Remote.Family() != 0
	e.file = sock.Claim(sockets.K, b.Local)
	return fd, nil
}

func addrOrNil(network string, a kernel.Addr) net.Addr {
	if a.Family() == 0 {
		return nil
	}
	return sock.NetAddr(network, a)
}

// adopt duplicates an existing socket.
func (e *Endpoint) adopt(c syscall.Conn) (int, error) {
	k := e.st.sockets.K
	fd, shape, err := e.st.sockets.Adopt(c)
	if err != nil {
		return -1, err
	}
	if !shape.Socket || shape.Type != kernel.Datagram {
		k.CloseFD(fd)
		return -1, syscall.EPROTOTYPE
	}
	if a, err := k.LocalAddr(fd); err == nil {
		e.family = a.Family()
	}
	if e.family == kernel.Unix {
		e.network = "unixgram"
	}
	_, err = k.PeerAddr(fd)
	e.connected = err == nil
	return fd, nil
}
