//go:build darwin || dragonfly || freebsd || netbsd

package kernel

import (
	"time"

	"golang.org/x/sys/unix"
)

// pollHalfClosed has no equivalent here: end of file is reported as readable.
const pollHalfClosed = 0

func pollWait(fds []unix.PollFd, timeout time.Duration) (int, error) {
	return unix.Poll(fds, millis(timeout))
}
