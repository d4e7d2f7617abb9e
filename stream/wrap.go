package stream

import (
	"context"
	"fmt"
	"syscall"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/sock"
)

// Wrap makes a Conn of something that is open already: an *os.File that is a pipe,
// a terminal or a socket, a *net.TCPConn, a *net.UnixConn. Its descriptor is
// duplicated: f stays the caller's, to be closed at any time, but should not be
// read or written meanwhile. It becomes non-blocking for everybody who shares it,
// except a terminal, which is opened anew.
//
// It fails with a *net.OpError: loop.ErrNotPollable for a regular file (see package
// files), ENOTCONN for a socket without a peer, EPROTOTYPE for one that is no
// stream, and where there is no real system below, with what is
// errors.ErrUnsupported.
func Wrap(ctx context.Context, f syscall.Conn) (*Conn, error) {
	if err := spindle.Checkpoint(ctx); err != nil {
		return nil, err
	}
	hub := sock.RegistryOf(spindle.LoopOf(ctx))
	fd, shape, err := hub.Adopt(f)
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
		_, err = hub.K.PeerAddr(fd)
	}
	if err != nil {
		hub.K.CloseFD(fd)
		return nil, sock.WrapError(err)
	}
	if shape.Socket {
		a, _ := hub.K.LocalAddr(fd)
		c, err := newConn(spindle.Background(ctx), hub, fd, sock.KindOf(a.Family()))
		return c, sock.WrapError(err)
	}
	return newPipe(spindle.Background(ctx), hub, fd, shape)
}

// Pipe makes a pipe: what is written to w is read from r. Ctx is a task's; the pipe
// belongs to its run. Where there is no real system below it fails with what is
// errors.ErrUnsupported.
func Pipe(ctx context.Context) (r, w *Conn, err error) {
	if err := spindle.Checkpoint(ctx); err != nil {
		return nil, nil, err
	}
	hub := sock.RegistryOf(spindle.LoopOf(ctx))
	home := spindle.Background(ctx)
	from, to, err := hub.K.Native().Pipe()
	if err != nil {
		return nil, nil, sock.WrapError(err)
	}
	if r, err = newPipe(home, hub, from, kernel.Shape{ReadOnly: true}); err != nil {
		hub.K.CloseFD(to)
		return nil, nil, err
	}
	if w, err = newPipe(home, hub, to, kernel.Shape{WriteOnly: true}); err != nil {
		r.Close()
		return nil, nil, err
	}
	return r, w, nil
}

// newPipe makes a Conn of what is no socket, and closes fd if it fails. A side that
// cannot be is closed from the beginning.
func newPipe(home *spindle.Nursery, hub *sock.Registry, fd int, shape kernel.Shape) (*Conn, error) {
	c, err := newConn(home, hub, fd, sock.Pipe)
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
