package simkernel

import (
	"syscall"

	"github.com/spindleloop/spindle/internal/kernel"
)

// socket is the state that all kinds of sockets share.
type socket struct {
	p      *Process
	host   *Host
	file   *file // nil before Accept and after close
	family kernel.Family
	kind   kernel.Type

	// Addresses are kept as they are sent: an IPv4 address is kept as such, also on an
	// IPv6 socket.
	local, remote kernel.Addr
	bound         bool // local is in the host's table of ports
	listens       bool
	err           syscall.Errno // pending; reading it clears it
	options       [kernel.SocketError]int32
}

func (s *socket) base() *socket { return s }

// socketObject is an object that is a socket.
type socketObject interface {
	object
	base() *socket
	connect(a kernel.Addr) error
	shutdown(side kernel.Side) error
}

// Default sizes of buffers. They are smaller than those of a real system, so that tests
// meet backpressure too.
const (
	streamBuffer   = 64 << 10
	datagramBuffer = 208 << 10
	minBuffer      = 2 << 10
	maxDatagram    = 65507
)

// Socket makes a socket.
func (p *Process) Socket(f kernel.Family, t kernel.Type) (int, error) {
	if f < kernel.IPv4 || f > kernel.Unix || t < kernel.Stream || t > kernel.Datagram {
		return -1, syscall.EINVAL
	}
	if err := p.canOpen(); err != nil {
		return -1, err
	}
	if err := p.host.fault("socket"); err != nil {
		return -1, err
	}
	return p.newSocket(f, t).base().file.fd, nil
}

func (p *Process) newSocket(f kernel.Family, t kernel.Type) socketObject {
	base := socket{p: p, host: p.host, family: f, kind: t}
	base.options[kernel.LingerSeconds] = -1
	var o socketObject
	if t == kernel.Stream {
		base.setBuffers(streamBuffer)
		o = &conn{socket: base}
	} else {
		base.setBuffers(datagramBuffer)
		o = &dgram{socket: base}
	}
	o.base().file = p.open(o)
	return o
}

func (s *socket) setBuffers(n int32) {
	s.options[kernel.SendBuffer], s.options[kernel.RecvBuffer] = n, n
}

// socket returns the socket of a descriptor, or the error that FailCall has set.
func (p *Process) socket(fd int, call string) (socketObject, error) {
	f, err := p.file(fd)
	if err != nil {
		return nil, err
	}
	o, ok := f.object.(socketObject)
	if !ok {
		return nil, syscall.ENOTSOCK
	}
	return o, p.host.fault(call)
}

// stream returns the stream socket of a descriptor.
func (p *Process) stream(fd int, call string) (*conn, error) {
	o, err := p.socket(fd, call)
	if err != nil {
		return nil, err
	}
	c, ok := o.(*conn)
	if !ok {
		return nil, syscall.EOPNOTSUPP
	}
	return c, nil
}

// Bind binds a socket to an address.
func (p *Process) Bind(fd int, a kernel.Addr) error {
	o, err := p.socket(fd, "bind")
	if err != nil {
		return err
	}
	s := o.base()
	switch {
	case a.Family() == 0 || s.bound:
		return syscall.EINVAL
	case a.Family() != s.family:
		return syscall.EAFNOSUPPORT
	case s.family == kernel.Unix:
		return s.host.bindUnix(o, a.Path)
	}
	return s.bind(onWire(a))
}

// Listen makes a socket a listener.
func (p *Process) Listen(fd, backlog int) error {
	c, err := p.stream(fd, "listen")
	if err != nil {
		return err
	}
	return c.listen(backlog)
}

// Accept accepts a connection.
func (p *Process) Accept(fd int) (int, error) {
	c, err := p.stream(fd, "accept")
	if err != nil {
		return -1, err
	}
	return c.accept()
}

// Connect starts to connect a socket.
func (p *Process) Connect(fd int, a kernel.Addr) error {
	o, err := p.socket(fd, "connect")
	if err != nil {
		return err
	}
	p.recordConnect(a)
	p.sign(o)
	switch f := a.Family(); {
	case f == 0:
		return syscall.EINVAL
	case f != o.base().family:
		return syscall.EAFNOSUPPORT
	}
	return o.connect(a)
}

// Recv reads from a socket.
func (p *Process) Recv(fd int, b []byte) (int, error) {
	o, err := p.socket(fd, "recv")
	if err != nil {
		return 0, err
	}
	if d, ok := o.(*dgram); ok {
		n, _, _, err := d.recvFrom(b)
		return n, err
	}
	return o.(*conn).recv(b)
}

// Send writes to a socket.
func (p *Process) Send(fd int, b []byte) (int, error) {
	o, err := p.socket(fd, "send")
	if err != nil {
		return 0, err
	}
	p.record(sends, int64(len(b)), b)
	p.sign(o)
	if d, ok := o.(*dgram); ok {
		return d.sendTo(b, kernel.Addr{})
	}
	return o.(*conn).send(b)
}

// Sendv writes several buffers to a socket.
func (p *Process) Sendv(fd int, bufs [][]byte) (int, error) {
	o, err := p.socket(fd, "sendv")
	if err != nil {
		return 0, err
	}
	if len(bufs) > 1024 {
		return 0, syscall.EMSGSIZE
	}
	for _, b := range bufs {
		p.record(sends, int64(len(b)), b)
	}
	p.sign(o)
	if c, ok := o.(*conn); ok {
		return c.sendv(bufs)
	}
	var whole []byte
	for _, b := range bufs {
		whole = append(whole, b...)
	}
	return o.(*dgram).sendTo(whole, kernel.Addr{})
}

// RecvFrom reads a datagram.
func (p *Process) RecvFrom(fd int, b []byte) (int, kernel.Addr, bool, error) {
	o, err := p.socket(fd, "recvfrom")
	if err != nil {
		return 0, kernel.Addr{}, false, err
	}
	if c, ok := o.(*conn); ok {
		n, err := c.recv(b)
		return n, kernel.Addr{}, false, err
	}
	return o.(*dgram).recvFrom(b)
}

// SendTo writes a datagram.
func (p *Process) SendTo(fd int, b []byte, to kernel.Addr) (int, error) {
	o, err := p.socket(fd, "sendto")
	if err != nil {
		return 0, err
	}
	p.record(sends, int64(len(b)), b)
	p.sign(o)
	if c, ok := o.(*conn); ok {
		if to != (kernel.Addr{}) && c.state == connected {
			return 0, syscall.EISCONN
		}
		return c.send(b)
	}
	return o.(*dgram).sendTo(b, to)
}

// Shutdown closes one or both directions of a connection.
func (p *Process) Shutdown(fd int, side kernel.Side) error {
	o, err := p.socket(fd, "shutdown")
	if err != nil {
		return err
	}
	return o.shutdown(side)
}

// LocalAddr returns a socket's local address.
func (p *Process) LocalAddr(fd int) (kernel.Addr, error) {
	o, err := p.socket(fd, "localaddr")
	if err != nil {
		return kernel.Addr{}, err
	}
	s := o.base()
	return s.inFamily(s.local), nil
}

// PeerAddr returns the address that a socket is connected to.
func (p *Process) PeerAddr(fd int) (kernel.Addr, error) {
	o, err := p.socket(fd, "peeraddr")
	if err != nil {
		return kernel.Addr{}, err
	}
	switch o := o.(type) {
	case *conn:
		if !o.attached() {
			return kernel.Addr{}, syscall.ENOTCONN
		}
	case *dgram:
		if !o.connected {
			return kernel.Addr{}, syscall.ENOTCONN
		}
	}
	s := o.base()
	return s.inFamily(s.remote), nil
}

// SetOption sets a socket option.
func (p *Process) SetOption(fd int, o kernel.Option, value int) error {
	so, err := p.socket(fd, "setoption")
	if err != nil {
		return err
	}
	s := so.base()
	switch {
	case o < kernel.ReuseAddr || o >= kernel.SocketError:
		return syscall.EINVAL
	case o == kernel.SendBuffer || o == kernel.RecvBuffer:
		value = min(max(value, minBuffer), 64<<20)
	case o == kernel.NoDelay && (s.kind != kernel.Stream || s.family == kernel.Unix),
		o == kernel.IPv6Only && s.family != kernel.IPv6:
		return syscall.ENOPROTOOPT
	}
	s.options[o] = int32(value)
	if c, ok := so.(*conn); ok {
		c.resize()
	}
	return nil
}

// Option returns the value of a socket option.
func (p *Process) Option(fd int, o kernel.Option) (int, error) {
	so, err := p.socket(fd, "option")
	if err != nil {
		return 0, err
	}
	s := so.base()
	switch {
	case o == kernel.SocketError:
		return int(s.takeError()), nil
	case o < kernel.ReuseAddr || o >= kernel.LingerSeconds:
		return 0, syscall.EINVAL
	}
	return int(s.options[o]), nil
}

// takeError returns and clears the pending error.
func (s *socket) takeError() syscall.Errno {
	err := s.err
	s.err = 0
	return err
}

func (s *socket) on(o kernel.Option) bool { return s.options[o] != 0 }
