package transport

import (
	"syscall"

	"github.com/spindleloop/spindle/internal/kernel"
)

// adopt makes a descriptor of our own for what c is.
func (st *station) adopt(c syscall.Conn) (fd int, shape kernel.Shape, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, shape, err
	}
	native := st.hub.K.Native()
	fd = -1
	if e := raw.Control(func(theirs uintptr) { fd, err = native.Adopt(int(theirs)) }); e != nil {
		return -1, shape, e
	}
	if err != nil {
		return -1, shape, err
	}
	if shape, err = native.Shape(fd); err != nil {
		native.Release(fd)
		return -1, shape, err
	}
	return fd, shape, nil
}
