package stream

import (
	"errors"
	"fmt"
	"syscall"
)

// SyscallConn returns a syscall.RawConn for the connection's descriptor. Its methods call their
// function on the loop. Read and Write call it once, and do not wait: if it reports false, they
// fail with errors.ErrUnsupported. That is enough for libraries that look whether an idle
// connection has ended. In a simulated run SyscallConn fails with errors.ErrUnsupported.
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

func (r rawConn) Read(fn func(fd uintptr) bool) error  { return r.once("Read", fn) }
func (r rawConn) Write(fn func(fd uintptr) bool) error { return r.once("Write", fn) }

func (r rawConn) once(op string, fn func(fd uintptr) bool) error {
	done := false
	if err := r.Control(func(fd uintptr) { done = fn(fd) }); err != nil || done {
		return err
	}
	return fmt.Errorf("stream: %s of a RawConn that has to wait: %w; use Conn.%s", op, errors.ErrUnsupported, op)
}
