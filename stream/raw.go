package stream

import (
	"errors"
	"fmt"
	"syscall"
)

// SyscallConn returns a syscall.RawConn for the connection's descriptor, as connections of package
// net have it. Control runs its function on the loop. Read and Write fail with
// errors.ErrUnsupported, because the loop waits for the descriptor. In a simulated run
// SyscallConn fails with errors.ErrUnsupported.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	if !c.registry().K.Real() {
		return nil, fmt.Errorf("stream: SyscallConn: no descriptors in a simulated run: %w", errors.ErrUnsupported)
	}
	return rawConn{c}, nil
}

// rawConn is the descriptor of a connection.
type rawConn struct{ c *Conn }

func (r rawConn) Control(fn func(fd uintptr)) error {
	return r.c.onLoop("control", func() error {
		fn(uintptr(r.c.socket.FD()))
		return nil
	})
}

func (r rawConn) Read(func(fd uintptr) bool) error  { return unsupported("Read") }
func (r rawConn) Write(func(fd uintptr) bool) error { return unsupported("Write") }

func unsupported(op string) error {
	return fmt.Errorf("stream: %s of a RawConn: %w; use Conn.%s", op, errors.ErrUnsupported, op)
}
