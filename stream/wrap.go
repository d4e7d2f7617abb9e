package stream

import (
	"context"
	"fmt"
	"syscall"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/sock"
)

// Wrap returns a Conn for an open file: an *os.File that is a pipe, a terminal or a
// socket, a *net.TCPConn, or a *net.UnixConn. It duplicates the descriptor. The
// caller still owns f and may close it at any time, but should not read or write it
// while the Conn is in use. The descriptor becomes non-blocking for every process
// that shares it, except that a terminal is opened anew.
//
// Wrap fails with a *net.OpError. It wraps errors.ErrUnsupported for a regular file
// (see package files), ENOTCONN for a socket without a peer, and EPROTOTYPE for a
// socket that is not a stream. In a simulated run it wraps errors.ErrUnsupported.
func Wrap(ctx context.Context, f syscall.Conn) (*Conn, error) {
	if err := spindle.Checkpoint(ctx); err != nil {
		return nil, err
	}
	registry := sock.RegistryOf(spindle.LoopOf(ctx))
	fd, shape, err := registry.Adopt(f)
	if err != nil {
		return nil, sock.WrapError(err)
	}
	switch {
	case !shape.Socket:
	case shape.Type != kernel.Stream:
		err = syscall.EPROTOTYPE
	case shape.Listening:
		err = fmt.Errorf("it listens: %w", syscall.EPROTOTYPE)
	default:
		_, err = registry.K.PeerAddr(fd)
	}
	if err != nil {
		registry.K.CloseFD(fd)
		return nil, sock.WrapError(err)
	}
	if shape.Socket {
		a, _ := registry.K.LocalAddr(fd)
		c, err := newConn(spindle.RootNursery(ctx), registry, fd, sock.KindOf(a.Family()))
		return c, sock.WrapError(err)
	}
	return newPipe(spindle.RootNursery(ctx), registry, fd, shape)
}

// Pipe returns the two ends of a new pipe: r reads what is written to w. The context
// comes from a task, and the pipe belongs to that task's run. In a simulated run
// Pipe fails with an error that wraps errors.ErrUnsupported.
func Pipe(ctx context.Context) (r, w *Conn, err error) {
	if err := spindle.Checkpoint(ctx); err != nil {
		return nil, nil, err
	}
	registry := sock.RegistryOf(spindle.LoopOf(ctx))
	nursery := spindle.RootNursery(ctx)
	from, to, err := registry.K.Native().Pipe()
	if err != nil {
		return nil, nil, sock.WrapError(err)
	}
	if r, err = newPipe(nursery, registry, from, kernel.Shape{ReadOnly: true}); err != nil {
		registry.K.CloseFD(to)
		return nil, nil, err
	}
	if w, err = newPipe(nursery, registry, to, kernel.Shape{WriteOnly: true}); err != nil {
		r.Close()
		return nil, nil, err
	}
	return r, w, nil
}

// newPipe returns a Conn for a descriptor that is not a socket. A direction that the
// descriptor does not support is closed from the start. If newPipe fails, it closes
// fd.
func newPipe(nursery *spindle.Nursery, registry *sock.Registry, fd int, shape kernel.Shape) (*Conn, error) {
	c, err := newConn(nursery, registry, fd, sock.Pipe)
	if err != nil {
		return nil, sock.WrapError(err)
	}
	if shape.WriteOnly {
		c.socket.CloseRead()
	}
	if shape.ReadOnly {
		c.socket.CloseWrite()
	}
	return c, nil
}
