package proc

import (
	"os"

	"golang.org/x/sys/unix"
)

// handleOf is a pidfd of the child. It is our own, because that of os.Process is
// only lent; and it is not made non-blocking as other descriptors are: os.Process
// would then not wait any more, since both are one to the system.
func handleOf(child *os.Process) (fd int, ok bool) {
	var err error
	if none := child.WithHandle(func(handle uintptr) {
		fd, err = unix.FcntlInt(handle, unix.F_DUPFD_CLOEXEC, 0)
	}); none != nil || err != nil {
		return -1, false
	}
	return fd, true
}
