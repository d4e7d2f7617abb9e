package workerproc

import (
	"context"
	"encoding/binary"
	"net"
	"os"
	"syscall"

	"github.com/spindleloop/spindle"
)

// DescriptorSocket is the number of the socket that a process with Config.Descriptors receives
// descriptors from. Each comes with a number of 8 bytes.
const DescriptorSocket = 3

// sendBuffer bounds the descriptors on their way, which count as open files of this process.
const sendBuffer = 32 << 10

// Descriptors sends open descriptors to a process. Loop goroutine only.
type Descriptors struct {
	fd      int
	waiting bool // a task waits in Send
	closed  bool
}

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
	d, end := &Descriptors{fd: fds[0]}, os.NewFile(uintptr(fds[1]), "descriptors")
	if err = syscall.SetNonblock(d.fd, true); err == nil {
		err = syscall.SetsockoptInt(d.fd, syscall.SOL_SOCKET, syscall.SO_SNDBUF, sendBuffer)
	}
	if err != nil {
		d.close()
		_ = end.Close()
		return nil, nil, err
	}
	return d, end, nil
}

// Send sends the descriptor of f, which is still f's, to the process, with a number for it. It waits
// while the buffer of the socket is full. One task at a time may call it.
func (d *Descriptors) Send(ctx context.Context, f *os.File, number uint64) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	payload := binary.BigEndian.AppendUint64(nil, number)
	for !d.closed {
		var sent error
		err := raw.Control(func(fd uintptr) {
			sent = syscall.Sendmsg(d.fd, payload, syscall.UnixRights(int(fd)), nil, 0)
		})
		if err != nil || sent == nil {
			return err
		}
		if sent == syscall.EINTR {
			continue
		}
		if sent != syscall.EAGAIN {
			return os.NewSyscallError("sendmsg", sent)
		}
		if err := d.wait(ctx); err != nil {
			return err
		}
	}
	return net.ErrClosed
}

func (d *Descriptors) wait(ctx context.Context) error {
	d.waiting = true
	err := spindle.WaitWritable(ctx, d.fd) // ends when the process does, which closes its end
	d.waiting = false
	if d.closed {
		_ = syscall.Close(d.fd)
	}
	return err
}

// close closes the socket, now or when the task that waits for it has noticed.
func (d *Descriptors) close() {
	if d.closed {
		return
	}
	d.closed = true
	if !d.waiting {
		_ = syscall.Close(d.fd)
	}
}
