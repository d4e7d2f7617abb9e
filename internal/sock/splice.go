package sock

import (
	"io"
	"syscall"
)

// SpliceIn is Read into a pipe, which must be empty, of at most n bytes: they stay
// where they are, in the system. What cannot be spliced fails with EINVAL or ENOSYS.
func (c *Conn) SpliceIn(pipe, n int) (int, error) {
	switch {
	case c.is(isClosed):
		return 0, syscall.EBADF
	case c.is(ended):
		return 0, io.EOF
	case c.is(drained):
		return 0, syscall.EAGAIN
	}
	n, err := c.hub.K.Native().Splice(int(c.fd), pipe, n)
	switch {
	case err == syscall.EAGAIN:
		c.state |= drained
	case err == nil && n == 0:
		c.state |= ended
		return 0, io.EOF
	}
	return n, err
}

// SpliceOut is Write of the n bytes that are in a pipe. It may move fewer although
// there is room for more: Writable tells, and then no call of SocketReady would.
func (c *Conn) SpliceOut(pipe, n int) (int, error) {
	switch {
	case c.is(isClosed):
		return 0, syscall.EBADF
	case c.is(shut):
		return 0, syscall.EPIPE
	case c.is(full):
		return 0, nil
	}
	moved, err := c.hub.K.Native().Splice(pipe, int(c.fd), n)
	switch {
	case err == syscall.EAGAIN:
		return 0, c.wrote(0, n, err)
	case err == nil && moved == 0:
		err = io.ErrShortWrite // it holds less
	}
	return moved, err
}
