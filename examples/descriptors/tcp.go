package main

import (
	"context"
	"fmt"

	"github.com/spindleloop/spindle"
	"golang.org/x/sys/unix"
)

// listen opens a non-blocking socket on a port of 127.0.0.1; port 0 chooses a free one.
// It returns the descriptor and the address.
func listen(port int) (fd int, addr string, err error) {
	if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0); err != nil {
		return -1, "", err
	}
	unix.CloseOnExec(fd)
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	}
	if err == nil {
		err = unix.Listen(fd, 128)
	}
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		unix.Close(fd)
		return -1, "", fmt.Errorf("listen on port %d: %w", port, err)
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		unix.Close(fd)
		return -1, "", err
	}
	return fd, fmt.Sprintf("127.0.0.1:%d", at.(*unix.SockaddrInet4).Port), nil
}

// accept waits for the next connection and returns its non-blocking descriptor.
func accept(ctx context.Context, listener int) (int, error) {
	for {
		if err := spindle.WaitReadable(ctx, listener); err != nil {
			return -1, err
		}
		fd, _, err := unix.Accept(listener)
		switch err {
		case nil:
			unix.CloseOnExec(fd)
			if err := unix.SetNonblock(fd, true); err != nil {
				unix.Close(fd)
				return -1, err
			}
			return fd, nil
		case unix.EAGAIN, unix.EINTR, unix.ECONNABORTED: // the client closed it already
		default:
			return -1, err
		}
	}
}
