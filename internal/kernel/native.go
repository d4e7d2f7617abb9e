package kernel

import (
	"net"
	"syscall"
)

// Native has the calls that only a real system can make: on descriptors that other
// parts of the program opened, on files, and to move bytes inside the system. A
// simulated kernel does not implement it. Unlike the rest of a kernel, it may be
// called from any goroutine. A call that the system lacks fails with ENOSYS, which
// matches errors.ErrUnsupported.
type Native interface {
	// Adopt returns a new descriptor, non-blocking and closed on exec, for the
	// file that fd refers to. The caller keeps fd and may close it. O_NONBLOCK
	// belongs to the shared open file, so fd becomes non-blocking too. Only a
	// terminal is reopened instead: other programs share it and do not expect a
	// non-blocking one.
	Adopt(fd int) (own int, err error)
	// Release closes a descriptor that Adopt or Pipe returned.
	Release(fd int) error
	// Shape returns the kind of file that fd refers to.
	Shape(fd int) (Shape, error)
	// NetConn returns a connection of package net on the socket that fd refers
	// to. It leaves fd unchanged.
	NetConn(fd int) (net.Conn, error)
	// Unlisten makes a listening TCP socket refuse connections from now on,
	// including those in its backlog. The socket becomes readable, and Accept
	// fails with EINVAL.
	Unlisten(fd int) error
	// PeerCred returns the credentials of the process that created the other
	// end of a Unix stream socket.
	PeerCred(fd int) (Cred, error)

	// FileID returns the identity of the file at path.
	FileID(path string) (FileID, error)
	// Unlink removes path if it is still the file with that identity.
	Unlink(path string, id FileID) error

	// SendFile sends up to n bytes of a file, starting at offset, until the
	// socket buffer is full. It returns 0 at the end of the file. It may wait
	// for the disk, but not for the peer.
	SendFile(to, file int, offset int64, n int) (int, error)

	// Pipe returns the ends of a new pipe, non-blocking and closed on exec.
	Pipe() (r, w int, err error)
	// Splice moves up to n bytes between two descriptors without copying them
	// through the program. One descriptor must be a pipe. It returns 0 at the
	// end of from.
	Splice(from, to, n int) (int, error)
}

// Shape is the kind of file that a descriptor refers to.
type Shape struct {
	Socket    bool // otherwise a pipe, a terminal or a file
	Type      Type // for a socket; 0 if it is neither stream nor datagram
	Listening bool

	ReadOnly, WriteOnly bool // the ends of a pipe
}

// Cred is a process and the user and group it ran as.
type Cred struct{ PID, UID, GID int }

// FileID identifies a file independently of its name.
type FileID struct{ Dev, Ino uint64 }

// Native returns the native calls of a real kernel. For a simulated kernel, every
// call of the result fails with ENOSYS.
func (k *Kernel) Native() Native {
	if n, ok := k.Sockets.(Native); ok {
		return n
	}
	return notNative{}
}

// Real reports whether the kernel is a real system. Features outside the Kernel
// interface (processes, signals, files) check it, and refuse to work on a simulated
// kernel, so that a simulated program never touches the machine by accident.
func (k *Kernel) Real() bool {
	_, ok := k.Sockets.(Native)
	return ok
}

type notNative struct{}

func (notNative) Adopt(int) (int, error)                     { return -1, syscall.ENOSYS }
func (notNative) Release(int) error                          { return syscall.ENOSYS }
func (notNative) Shape(int) (Shape, error)                   { return Shape{}, syscall.ENOSYS }
func (notNative) NetConn(int) (net.Conn, error)              { return nil, syscall.ENOSYS }
func (notNative) Unlisten(int) error                         { return syscall.ENOSYS }
func (notNative) PeerCred(int) (Cred, error)                 { return Cred{}, syscall.ENOSYS }
func (notNative) FileID(string) (FileID, error)              { return FileID{}, syscall.ENOSYS }
func (notNative) Unlink(string, FileID) error                { return syscall.ENOSYS }
func (notNative) SendFile(int, int, int64, int) (int, error) { return 0, syscall.ENOSYS }
func (notNative) Pipe() (int, int, error)                    { return -1, -1, syscall.ENOSYS }
func (notNative) Splice(int, int, int) (int, error)          { return 0, syscall.ENOSYS }
