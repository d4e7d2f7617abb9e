package kernel

import "golang.org/x/sys/unix"

func newWaker() (*waker, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	return &waker{r: fd, w: fd}, nil
}
