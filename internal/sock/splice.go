package sock

import (
	"io"
	"syscall"
)

// SpliceIn moves at most n bytes from the socket into an empty pipe, without copying
// them to user space. It fails like Read, or with EINVAL or ENOSYS if the descriptor
// cannot be spliced.
func (c *Conn) SpliceIn(pipe, n int) (int, error) {
	switch {
	case c.is(isClosed):
		return 0, syscall.EBADF
	case c.is(ended):
		return 0, io.EOF
	case c.is(drained):
		return 0, syscall.EAGAIN
	}
	n, err := c.reg.K.Native().Splice(int(c.fd), pipe, n)
	switch {
	case err == syscall.EAGAIN:
		c.state |= drained
	case err == nil && n == 0:
		c.state |= ended
		return 0, io.EOF
	}
	return n, err
}

// SpliceOut moves the n bytes in a pipe to the socket, like Write. It may move fewer
// while the socket is still Writable; then no call of Owner.Ready follows.
func (c *Conn) SpliceOut(pipe, n int) (int, error) {
	if !c.Writable() {
		return 0, c.unwritable()
	}
	moved, err := c.reg.K.Native().Splice(pipe, int(c.fd), n)
	switch {
	case err == syscall.EAGAIN:
		return 0, c.noteWrite(0, n, err)
	case err == nil && moved == 0:
		err = io.ErrShortWrite // the pipe holds less
	}
	return moved, err
}
