package proc

import (
	"os"

	"golang.org/x/sys/unix"
)

// openPidfd returns a pidfd for the child. It duplicates os.Process's own, which is
// valid only during the callback. Unlike other descriptors, the pidfd is not made
// non-blocking: both share one file description, and os.Process could not wait any
// more.
func openPidfd(child *os.Process) (fd int, ok bool) {
	var err error
	if none := child.WithHandle(func(handle uintptr) {
		fd, err = unix.FcntlInt(handle, unix.F_DUPFD_CLOEXEC, 0)
	}); none != nil || err != nil {
		return -1, false
	}
	return fd, true
}
