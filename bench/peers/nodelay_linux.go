package peers

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// noDelayOnListeners sets TCP_NODELAY on every listening socket of this process, for
// libraries that do not expose their sockets. On Linux an accepted socket inherits the
// option.
func noDelayOnListeners() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	found := false
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		listens, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
		if err != nil || listens == 0 {
			continue // not a listening socket
		}
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
			return err
		}
		found = true
	}
	if !found {
		return errors.New("peers: no listening socket to set TCP_NODELAY on")
	}
	return nil
}
