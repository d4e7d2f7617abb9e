//go:build !linux

package broker

import (
	"fmt"
	"net"
)

// reservedPort is a TCP port of 127.0.0.1 that was free when it was chosen. Only Linux keeps it
// from others until a server listens on it.
type reservedPort struct{ number int }

// reservePort returns a free port.
func reservePort() (reservedPort, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return reservedPort{}, fmt.Errorf("broker: %w", err)
	}
	defer ln.Close()
	return reservedPort{ln.Addr().(*net.TCPAddr).Port}, nil
}

// release does nothing: the port is not held.
func (reservedPort) release() {}
