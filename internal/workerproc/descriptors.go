package workerproc

import (
	"encoding/binary"
	"os"
	"syscall"
)

// DescriptorSocket is the number of the socket that a process with Config.Descriptors receives
// descriptors from. Each comes with a number of 8 bytes.
const DescriptorSocket = 3

// sendBuffer bounds the descriptors on their way, which count as open files of this process.
const sendBuffer = 32 << 10

// Descriptors sends open descriptors to a process. Any goroutine.
type Descriptors struct{ socket *os.File }

// newDescriptors makes a pair of sockets, and returns the end of the process, too.
func newDescriptors() (*Descriptors, *os.File, error) {
	syscall.ForkLock.RLock() // not all systems can make sockets that other processes do not inherit
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	if err = syscall.SetNonblock(fds[0], true); err == nil { // so that the file waits without a thread
		err = syscall.SetsockoptInt(fds[0], syscall.SOL_SOCKET, syscall.SO_SNDBUF, sendBuffer)
	}
	d, end := &Descriptors{os.NewFile(uintptr(fds[0]), "descriptors")}, os.NewFile(uintptr(fds[1]), "descriptors")
	if err != nil {
		d.close()
		_ = end.Close()
		return nil, nil, err
	}
	return d, end, nil
}

// Send sends the descriptor of f, which is still f's, to the process, with a number for it. It waits
// while the buffer of the socket is full. It fails with os.ErrClosed if the process ends.
func (d *Descriptors) Send(f *os.File, number uint64) error {
	from, err := f.SyscallConn()
	if err != nil {
		return err
	}
	to, err := d.socket.SyscallConn()
	if err != nil {
		return err
	}
	payload := binary.BigEndian.AppendUint64(nil, number)
	var sent, waited error
	err = from.Control(func(fd uintptr) {
		rights := syscall.UnixRights(int(fd))
		waited = to.Write(func(fd uintptr) bool {
			for sent = syscall.EINTR; sent == syscall.EINTR; {
				sent = syscall.Sendmsg(int(fd), payload, rights, nil, 0)
			}
			return sent != syscall.EAGAIN
		})
	})
	switch {
	case err != nil:
		return err
	case waited != nil:
		return os.ErrClosed
	}
	return os.NewSyscallError("sendmsg", sent)
}

func (d *Descriptors) close() { _ = d.socket.Close() }
