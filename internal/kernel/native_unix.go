//go:build linux || darwin || dragonfly || freebsd || netbsd

package kernel

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

var _ Native = (*sockets)(nil)

func (s *sockets) Release(fd int) error { return s.CloseFD(fd) }

func (*sockets) Shape(fd int) (Shape, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return Shape{}, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		mode := flags & unix.O_ACCMODE
		return Shape{ReadOnly: mode == unix.O_RDONLY, WriteOnly: mode == unix.O_WRONLY}, err
	}
	sh := Shape{Socket: true}
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return Shape{}, err
	}
	for t, native := range types {
		if native == kind && t != 0 {
			sh.Type = Type(t)
		}
	}
	// The option may fail on a socket that cannot listen.
	listening, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	sh.Listening = err == nil && listening != 0
	return sh, nil
}

// NetConn uses an os.File because package net accepts no bare descriptor. The file
// and the connection each have their own descriptor.
func (s *sockets) NetConn(fd int) (net.Conn, error) {
	own, err := s.Adopt(fd)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(own), "socket")
	defer f.Close()
	return net.FileConn(f)
}

func (*sockets) FileID(path string) (FileID, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return FileID{}, err
	}
	return FileID{uint64(st.Dev), uint64(st.Ino)}, nil
}

func (s *sockets) Unlink(path string, id FileID) error {
	now, err := s.FileID(path)
	if err == nil && now == id {
		err = unix.Unlink(path)
	}
	if err == unix.ENOENT {
		return nil
	}
	return err
}

// dupNonblock returns a duplicate of fd that is non-blocking and closed on exec.
func dupNonblock(fd int) (int, error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.SetNonblock(own, true); err != nil {
		unix.Close(own)
		return -1, err
	}
	return own, nil
}
