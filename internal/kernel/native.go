package kernel

import (
	"net"
	"syscall"
)

// Native is what only a real system can do: it is about descriptors that other
// parts of the program opened, about files, and about moving bytes without
// touching them. A simulated kernel has none of it. Unlike the rest of a kernel it may be called from any
// goroutine. What a system lacks is refused with ENOSYS, which is
// errors.ErrUnsupported to errors.Is.
type Native interface {
	// Adopt makes a descriptor of our own for what fd refers to: non-blocking
	// and closed on exec. Whoever has fd keeps it, and may close it. To be
	// non-blocking belongs to what both refer to, so that fd becomes it too;
	// only a terminal is opened anew, because it is shared with other
	// programs, which would be surprised.
	Adopt(fd int) (own int, err error)
	// Release closes what Adopt or Pipe returned.
	Release(fd int) error
	// Shape tells what a descriptor is.
	Shape(fd int) (Shape, error)
	// NetConn is a connection of package net on the socket that fd refers to;
	// fd stays as it is.
	NetConn(fd int) (net.Conn, error)
	// Unlisten has a listening TCP socket refuse connections for good, at once:
	// also those that wait. It becomes readable, and accepting fails with
	// EINVAL.
	Unlisten(fd int) error
	// PeerCred tells who made the other end of a Unix stream socket.
	PeerCred(fd int) (Cred, error)

	// FileID identifies the file at a path, and Unlink removes the path if it
	// is still that file.
	FileID(path string) (FileID, error)
	Unlink(path string, id FileID) error

	// SendFile sends up to n bytes of a file from offset on, as far as there
	// is room; 0 is the end of the file. It may wait for the disk, but not for
	// the peer.
	SendFile(to, file int, offset int64, n int) (int, error)

	// Pipe makes a pipe, non-blocking and closed on exec.
	Pipe() (r, w int, err error)
	// Splice moves up to n bytes from one descriptor to another, one of which
	// is a pipe, without copying them; 0 is the end.
	Splice(from, to, n int) (int, error)
}

// Shape is what a descriptor is.
type Shape struct {
	Socket    bool // otherwise a pipe, a terminal or a file
	Type      Type // of a socket; 0 if it is neither stream nor datagram
	Listening bool

	ReadOnly, WriteOnly bool // an end of a pipe
}

// Cred is a process and on whose behalf it ran.
type Cred struct{ PID, UID, GID int }

// FileID tells files apart, whatever their names.
type FileID struct{ Dev, Ino uint64 }

// Native is what the system can do besides; if the kernel is not a real one,
// everything is refused with ENOSYS.
func (k *Kernel) Native() Native {
	if n, ok := k.Sockets.(Native); ok {
		return n
	}
	return notNative{}
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
