//go:build linux

package load

import (
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// openTogether is the number of connections that are opened before their answers
	// are awaited: few enough for the shortest backlog of a listener (Python's, 100).
	openTogether = 64
	// sources is the number of source addresses, from 127.0.0.2 on. One address has
	// only some 28,000 ports.
	sources = 8
	// connectLimit limits one connect, which takes microseconds on loopback.
	connectLimit = 5 // seconds
)

// newClient returns a client for total connections without opening any.
func newClient(p Plan, total int) (*client, error) {
	addr, err := netip.ParseAddrPort(p.Addr)
	if err != nil {
		return nil, err
	}
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("load: epoll_create1: %w", err)
	}
	c := &client{
		spin:   p.Spin,
		target: unix.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()},
		epoll:  epoll,
		conns:  make([]conn, 0, total),
		events: make([]unix.EpollEvent, maxEvents),
		base:   time.Now(),
	}
	switch {
	case p.Path != "":
		c.protocol, err = newRequests(p)
	case p.WebSocket:
		c.protocol = newFrames(p)
		c.handshake = func(fd int) error { return upgrade(fd, p.Addr) }
	default:
		c.protocol = newEchoes(p)
	}
	if err != nil {
		unix.Close(epoll)
		return nil, err
	}
	c.burst = p.Depth * c.protocol.answerBytes()
	c.in = make([]byte, total*c.burst)
	return c, nil
}

// open opens n more connections. When it returns, the server has answered a message on
// each, and so has accepted them all.
func (c *client) open(n int) error {
	for n > 0 {
		group := min(n, openTogether)
		for range group {
			if err := c.dial(); err != nil {
				return err
			}
		}
		if err := c.drain(); err != nil {
			return err
		}
		n -= group
	}
	return nil
}

func (c *client) dial() error {
	i := len(c.conns)
	// The socket blocks while it connects: there is nothing else to do meanwhile.
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("load: connection %d: socket: %w", i, err)
	}
	c.conns = append(c.conns, conn{fd: fd})
	if err := c.connect(fd, i); err != nil {
		return fmt.Errorf("load: connection %d: connect: %w", i, err)
	}
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLET, Fd: int32(i)}
	if err := unix.EpollCtl(c.epoll, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		return fmt.Errorf("load: connection %d: epoll_ctl: %w", i, err)
	}
	return c.send(i, 1)
}

// openSlow opens n connections that never finish their first request.
func (c *client) openSlow(n int) error {
	for range n {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("load: slow connection: socket: %w", err)
		}
		c.slow = append(c.slow, fd)
		if err := c.connect(fd, len(c.slow)); err != nil {
			return fmt.Errorf("load: slow connection: connect: %w", err)
		}
		if _, err := sendNow(fd, []byte("GET / HTTP/1.1\r\nHost: ")); err != nil {
			return fmt.Errorf("load: slow connection: send: %w", err)
		}
	}
	return nil
}

func (c *client) connect(fd, i int) error {
	limit := unix.Timeval{Sec: connectLimit}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit); err != nil {
		return err
	}
	// Closing resets the connection, so that no TIME_WAIT keeps its port.
	linger := unix.Linger{Onoff: 1}
	if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &linger); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return err
	}
	// The system chooses the port at connect, not at bind: then only the pair of
	// addresses must be unique.
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1); err != nil {
		return err
	}
	source := unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, byte(2 + i%sources)}}
	if err := unix.Bind(fd, &source); err != nil {
		return err
	}
	if err := unix.Connect(fd, &c.target); err != nil {
		return err
	}
	if c.handshake != nil {
		if err := c.handshake(fd); err != nil {
			return err
		}
	}
	return unix.SetNonblock(fd, true)
}

func (c *client) close() {
	for _, cn := range c.conns {
		unix.Close(cn.fd)
	}
	for _, fd := range c.slow {
		unix.Close(fd)
	}
	unix.Close(c.epoll)
}
