package broker

import (
	"fmt"
	"syscall"
)

// reservedPort is a TCP port of 127.0.0.1 that the system gives to nothing else: not to a
// listener that asks for a free port, and not to a client that connects, which may even connect
// to itself there. A server can listen on it, again and again, because both sockets allow
// the reuse of their address and only one of them listens.
type reservedPort struct {
	number int
	socket int
}

// reservePort reserves a free port, until release.
func reservePort() (p reservedPort, err error) {
	p.socket, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return p, fmt.Errorf("broker: a socket to reserve a port: %w", err)
	}
	if err = syscall.SetsockoptInt(p.socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err == nil {
		err = syscall.Bind(p.socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	var address syscall.Sockaddr
	if err == nil {
		address, err = syscall.Getsockname(p.socket)
	}
	if err != nil {
		p.release()
		return p, fmt.Errorf("broker: reserve a port: %w", err)
	}
	p.number = address.(*syscall.SockaddrInet4).Port
	return p, nil
}

// release lets the system give the port away.
func (p reservedPort) release() { syscall.Close(p.socket) }
