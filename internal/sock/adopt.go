package sock

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/spindleloop/spindle/internal/kernel"
)

// Adopt duplicates the descriptor of c and reports its shape.
func (r *Registry) Adopt(c syscall.Conn) (fd int, shape kernel.Shape, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, shape, err
	}
	fd = -1
	if e := raw.Control(func(theirs uintptr) { fd, shape, err = r.adopt(int(theirs)) }); e != nil {
		return -1, shape, net.ErrClosed // Control fails only on a closed descriptor; os does not export that error
	}
	return fd, shape, err
}

func (r *Registry) adopt(theirs int) (fd int, shape kernel.Shape, err error) {
	native := r.K.Native()
	if fd, err = native.Adopt(theirs); err != nil {
		return -1, shape, err
	}
	if shape, err = native.Shape(fd); err != nil {
		native.Release(fd)
		return -1, shape, err
	}
	return fd, shape, nil
}

// WrapError returns err as the error of a Wrap function.
func WrapError(err error) error {
	if errors.Is(err, errors.ErrUnsupported) {
		err = fmt.Errorf("a simulated kernel has no descriptors to wrap: %w", err)
	}
	return Error("wrap", "fd", nil, nil, err)
}
