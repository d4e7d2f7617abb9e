package kernel

import "net/netip"

// Family is an address family.
type Family uint8

const (
	IPv4 Family = iota + 1
	IPv6
	Unix
)

// Type is the kind of a socket.
type Type uint8

const (
	Stream Type = iota + 1
	Datagram
)

// Addr is an address of any family. It holds no pointer but its path. The zero Addr
// is no address.
type Addr struct {
	netip.AddrPort        // IPv4 and IPv6
	Path           string // Unix; a leading NUL (or '@') is an abstract name
}

// Family returns the family of the address, or 0 for the zero Addr.
func (a Addr) Family() Family {
	switch ip := a.Addr(); {
	case ip.Is4():
		return IPv4
	case ip.IsValid():
		return IPv6
	case a.Path != "":
		return Unix
	}
	return 0
}

// String returns the address in the form that net.Addr prints.
func (a Addr) String() string {
	if a.AddrPort.IsValid() {
		return a.AddrPort.String()
	}
	return a.Path
}

// Side is the half of a connection that Shutdown closes.
type Side uint8

const (
	ReadSide Side = iota + 1
	WriteSide
	BothSides
)

// Option is a socket option with an integer value; booleans are 0 and 1.
type Option uint8

const (
	ReuseAddr Option = iota + 1
	ReusePort
	NoDelay
	KeepAlive
	Broadcast
	IPv6Only
	SendBuffer
	RecvBuffer
	LingerSeconds // value < 0: no linger; 0: Close resets the connection
	SocketError   // read only: the pending error, which reading clears
)

// Sockets has the socket calls. Every descriptor they return is non-blocking and
// closed on exec. A call that would block fails with EAGAIN. Connect fails with
// EINPROGRESS while the connect continues: the socket becomes writable when it is
// done, and SocketError holds the result. No call raises SIGPIPE. The kernel repeats
// interrupted calls: EINTR is never returned.
type Sockets interface {
	Socket(f Family, t Type) (fd int, err error)
	Bind(fd int, a Addr) error
	Listen(fd, backlog int) error
	// Accept returns a pending connection. It does not return the peer's address:
	// most servers never need it, and each one would be an allocation. PeerAddr
	// returns it.
	Accept(fd int) (conn int, err error)
	Connect(fd int, a Addr) error

	// Recv reads available bytes. It returns 0 and no error at the end of the
	// stream.
	Recv(fd int, p []byte) (n int, err error)
	// Send writes as many bytes as the socket buffer takes.
	Send(fd int, p []byte) (n int, err error)
	// Sendv writes several buffers in one call: at most 1024, the system's limit.
	Sendv(fd int, bufs [][]byte) (n int, err error)
	// RecvFrom reads one datagram. It reports truncated if p was too small.
	RecvFrom(fd int, p []byte) (n int, from Addr, truncated bool, err error)
	// SendTo writes one datagram. The zero Addr means the connected peer.
	SendTo(fd int, p []byte, to Addr) (n int, err error)

	// Read and Write are Recv and Send for other files: pipes, terminals.
	Read(fd int, p []byte) (n int, err error)
	Write(fd int, p []byte) (n int, err error)

	Shutdown(fd int, s Side) error
	LocalAddr(fd int) (Addr, error)
	PeerAddr(fd int) (Addr, error)
	SetOption(fd int, o Option, value int) error
	Option(fd int, o Option) (int, error)
	// CloseFD closes a descriptor that Socket or Accept returned.
	CloseFD(fd int) error
}
