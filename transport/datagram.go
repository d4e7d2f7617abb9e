package transport

import (
	"net"
	"net/netip"
	"syscall"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/sock"
	"github.com/spindleloop/spindle/loop"
)

// DatagramProtocol is told what happens to an Endpoint, on its loop.
type DatagramProtocol interface {
	// ConnectionMade is the first call.
	ConnectionMade(e *Endpoint)
	// DatagramReceived brings a datagram.
	DatagramReceived(e *Endpoint, p Packet)
	// ErrorReceived tells that an earlier datagram could not be sent or
	// delivered: above all that nobody listens where a connected endpoint sends
	// to (ECONNREFUSED), which the peer's machine tells some time later. The
	// endpoint goes on.
	ErrorReceived(e *Endpoint, err error)
	// ConnectionLost is the last call. Err is nil if the endpoint was closed
	// from here.
	ConnectionLost(e *Endpoint, err error)
}

// DatagramWritePauser is a DatagramProtocol that wants to know when it sends faster
// than the system does.
type DatagramWritePauser interface {
	// PauseWriting tells that more than the high water mark waits to be sent.
	PauseWriting(e *Endpoint)
	// ResumeWriting tells that no more than the low water mark does.
	ResumeWriting(e *Endpoint)
}

// Packet is a datagram that has come.
type Packet struct {
	// Data is only lent: what is to be kept must be copied.
	Data []byte
	// From is the sender. It is the zero Addr for a Unix socket without a name.
	From Addr
	// Truncated says that the datagram was longer than Data, and the rest is
	// lost. It happens to those of Unix sockets beyond 64 KB; no UDP datagram
	// is that long.
	Truncated bool
}

// Addr is where a datagram comes from or goes to. The zero Addr is nowhere.
type Addr struct {
	AddrPort netip.AddrPort // of UDP; an IPv4 address is never in IPv6's form
	Path     string         // of Unix sockets; an abstract name begins with '@'
}

// String is the address as package net prints it.
func (a Addr) String() string { return kernel.Addr{AddrPort: a.AddrPort, Path: a.Path}.String() }

// DatagramOptions say where an Endpoint is, and to whom it talks. The zero value is
// a UDP endpoint on a free port that talks to anybody.
//
// Of asyncio's create_datagram_endpoint, family and proto are in Network; flags are
// about looking up names, which is not done here. There is no reuse_address:
// asyncio had to remove it, because on a UDP socket SO_REUSEADDR lets any program
// take the port over from the one that has it. ReusePort is what was meant: it
// asks that both be of the same user.
type DatagramOptions struct {
	// Network is "udp", "udp4", "udp6" or "unixgram". "" means "udp".
	Network string

	// Local is the address to receive at: host and port (port 0 takes a free
	// one, no host means all), or the path of a Unix socket. "" means any free
	// port; a Unix socket then has no name, and nobody can answer.
	Local string

	// Remote is the address to send to and to receive from, exclusively: a
	// connected endpoint. "" means everybody. Only a connected endpoint hears
	// that nobody listens.
	Remote string

	// ReusePort lets several endpoints receive at one address; the system
	// spreads senders over them.
	ReusePort bool

	// Broadcast permits sending to broadcast addresses.
	Broadcast bool

	// Sock is an existing socket: a *net.UDPConn, *net.UnixConn or *os.File. It
	// is duplicated; the original may be closed. All else is then as it is.
	Sock syscall.Conn
}

// Datagram makes an endpoint for datagrams and has p be told of what comes. It is
// asyncio's create_datagram_endpoint. Addresses are no names, as looking one up
// would wait. It fails with a *net.OpError.
func Datagram(l *loop.Loop, p DatagramProtocol, o DatagramOptions) (*Endpoint, error) {
	if p == nil {
		panic("transport: Datagram without a DatagramProtocol")
	}
	if o.Sock != nil && o != (DatagramOptions{Sock: o.Sock}) {
		panic("transport: Datagram with a Sock and other options")
	}
	e := &Endpoint{st: stationOf(l), proto: p, network: o.Network, state: unmade}
	if e.network == "" {
		e.network = "udp"
	}
	e.readsOn = e.readOn
	fd, err := e.open(o)
	if err == nil {
		if err = e.socket.Init(e.st.hub, fd, sock.Socket, (*endpointOwner)(e)); err != nil {
			e.file.Remove(e.st.hub.K)
		}
	}
	if err != nil {
		return nil, sock.Error("listen", e.network, nil, nil, err)
	}
	e.st.hub.L.CallSoonWith(loop.DropAtClose, e.begin)
	return e, nil
}

func (e *Endpoint) open(o DatagramOptions) (fd int, err error) {
	hub := e.st.hub
	if o.Sock != nil {
		return e.adopt(o.Sock)
	}
	b, err := sock.ParseDatagram(e.network, o.Local, o.Remote)
	if err != nil {
		return -1, err
	}
	b.ReusePort, b.Broadcast = o.ReusePort, o.Broadcast
	fd, err = hub.Datagram(b)
	if err == syscall.EAFNOSUPPORT || err == syscall.EADDRNOTAVAIL {
		if older, ok := b.WithoutIPv6(e.network, o.Local); ok {
			b = older
			fd, err = hub.Datagram(b)
		}
	}
	if err != nil {
		return -1, sock.Error("listen", e.network, addrOrNil(e.network, b.Local), addrOrNil(e.network, b.Remote), err)
	}
	e.family, e.connected = b.Family, b.Remote.Family() != 0
	e.file = sock.Claim(hub.K, b.Local)
	return fd, nil
}

func addrOrNil(network string, a kernel.Addr) net.Addr {
	if a.Family() == 0 {
		return nil
	}
	return sock.NetAddr(network, a)
}

// adopt takes an existing socket.
func (e *Endpoint) adopt(c syscall.Conn) (int, error) {
	k := e.st.hub.K
	fd, shape, err := e.st.hub.Adopt(c)
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
