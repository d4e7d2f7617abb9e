package sock

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/spindleloop/spindle/internal/kernel"
)

// Adopt makes a descriptor of our own for what c is, and tells what that is.
func (h *Hub) Adopt(c syscall.Conn) (fd int, shape kernel.Shape, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, shape, err
	}
	fd = -1
	if e := raw.Control(func(theirs uintptr) { fd, shape, err = h.AdoptFD(int(theirs)) }); e != nil {
		return -1, shape, net.ErrClosed // the only reason there is, but os has no name for it here
	}
	return fd, shape, err
}

// AdoptFD is Adopt of a descriptor.
func (h *Hub) AdoptFD(theirs int) (fd int, shape kernel.Shape, err error) {
	native := h.K.Native()
	if fd, err = native.Adopt(theirs); err != nil {
		return -1, shape, err
	}
	if shape, err = native.Shape(fd); err != nil {
		native.Release(fd)
		return -1, shape, err
	}
	return fd, shape, nil
}

// WrapError is the error of what could not be wrapped.
func WrapError(err error) error {
	if errors.Is(err, errors.ErrUnsupported) {
		err = fmt.Errorf("there is no real system below: %w", err)
	}
	return Error("wrap", "fd", nil, nil, err)
}
