package kernel

import (
	"time"

	"golang.org/x/sys/unix"
)

const pollHalfClosed = unix.POLLRDHUP

func pollWait(fds []unix.PollFd, timeout time.Duration) (int, error) {
	if timeout < 0 {
		return unix.Ppoll(fds, nil, nil)
	}
	ts := unix.NsecToTimespec(int64(timeout))
	return unix.Ppoll(fds, &ts, nil)
}
