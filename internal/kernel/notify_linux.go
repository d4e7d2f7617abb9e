package kernel

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Notify watches the epoll descriptor with Go's own poller, which is an epoll, too.
func (p *epoll) Notify(ready func()) (stop func(), err error) {
	fd, err := unix.FcntlInt(uintptr(p.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil { // otherwise os.File does not poll it
		unix.Close(fd)
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "epoll")
	if err := f.SetReadDeadline(time.Time{}); err != nil { // Go's poller did not take it
		f.Close()
		return nil, err
	}
	conn, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	begun, ended := make(chan struct{}), make(chan struct{})
	var failure error // when ended
	go func() {
		defer close(ended)
		first := true
		failure = conn.Read(func(uintptr) bool {
			if first {
				close(begun)
			} else {
				ready()
			}
			first = false
			return false
		})
	}()
	select { // Read forgets the events before its first call
	case <-begun:
	case <-ended:
		f.Close()
		return nil, failure
	}
	return func() { f.Close(); <-ended }, nil
}
