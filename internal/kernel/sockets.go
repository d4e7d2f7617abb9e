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

// Addr is an address of any family, without a pointer to anything but its
// path. The zero Addr is no address.
type Addr struct {
	netip.AddrPort        // IPv4 and IPv6
	Path           string // Unix; a leading NUL (or '@') is an abstract name
}

// Family tells which family the address belongs to, 0 for the zero Addr.
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

// String is the address in the form that net.Addr prints.
func (a Addr) String() string {
	if a.AddrPort.IsValid() {
		return a.AddrPort.String()
	}
	return a.Path
}

// Side names the halves of a connection that Shutdown closes.
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

// Sockets are the socket calls. Every descriptor they return is non-blocking
// and closed on exec. Where a call would block it fails with EAGAIN; a connect
// under way fails with EINPROGRESS and ends in writability, its outcome in
// SocketError. No call raises SIGPIPE. An interrupted call is tried again by
// the kernel: EINTR is never returned.
type Sockets interface {
	Socket(f Family, t Type) (fd int, err error)
	Bind(fd int, a Addr) error
	Listen(fd, backlog int) error
	// Accept takes a waiting connection. Whom it came from is PeerAddr's to
	// tell: most servers never ask, and an address per accept is garbage.
	Accept(fd int) (conn int, err error)
	Connect(fd int, a Addr) error

	// Recv reads what is there; 0 with a nil error is the end of the stream.
	Recv(fd int, p []byte) (n int, err error)
	// Send writes what there is room for.
	Send(fd int, p []byte) (n int, err error)
	// Sendv writes several buffers as one: at most 1024, a system's limit.
	Sendv(fd int, bufs [][]byte) (n int, err error)
	// RecvFrom reads one datagram; truncated says that p was too small.
	RecvFrom(fd int, p []byte) (n int, from Addr, truncated bool, err error)
	// SendTo writes one datagram; the zero Addr means the connected peer.
	SendTo(fd int, p []byte, to Addr) (n int, err error)

	// Read and Write are Recv and Send for what is no socket: pipes, terminals.
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
