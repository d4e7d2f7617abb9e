//go:build darwin || dragonfly || freebsd || netbsd

package kernel

import (
	"syscall"

	"golang.org/x/sys/unix"
)

func newWaker() (*waker, error) {
	var p [2]int
	syscall.ForkLock.RLock()
	err := unix.Pipe(p[:])
	if err == nil {
		unix.CloseOnExec(p[0])
		unix.CloseOnExec(p[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, err
	}
	w := &waker{r: p[0], w: p[1]}
	for _, fd := range p {
		if err := unix.SetNonblock(fd, true); err != nil {
			w.close()
			return nil, err
		}
	}
	return w, nil
}
