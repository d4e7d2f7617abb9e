package transport

import (
	"fmt"
	"net"

	"github.com/spindleloop/spindle/internal/kernel"
)

// socketFile is the path that a Unix socket was bound to. The zero value is none,
// as an abstract name and an internet address have none.
type socketFile struct {
	path string
	id   kernel.FileID
}

// claim takes note of the file that binding to a has made.
func claim(k *kernel.Kernel, a kernel.Addr) socketFile {
	if a.Path == "" || a.Path[0] == '@' || a.Path[0] == 0 {
		return socketFile{}
	}
	id, err := k.Native().FileID(a.Path)
	if err != nil {
		return socketFile{} // a simulated one, or already gone
	}
	return socketFile{a.Path, id}
}

// remove removes the file, unless somebody else has put another one in its place.
func (f *socketFile) remove(k *kernel.Kernel) error {
	if f.path == "" {
		return nil
	}
	path := f.path
	f.path = ""
	if err := k.Native().Unlink(path, f.id); err != nil {
		return fmt.Errorf("transport: remove %s: %w", path, err)
	}
	return nil
}

// Cred is who is at the other end of a Unix socket.
type Cred struct {
	PID      int // the process that connected or listened
	UID, GID int // on whose behalf it did
}

// PeerCred asks the system who is at the other end of a Unix socket. The answer
// was true when the connection was made. It is for Linux; elsewhere, and for a
// connection of another kind, it fails with what is errors.ErrUnsupported.
func (c *Conn) PeerCred() (Cred, error) {
	c.only("PeerCred")
	fd := c.socket.FD()
	if fd < 0 {
		return Cred{}, c.fault("get", net.ErrClosed)
	}
	cred, err := c.st.hub.K.Native().PeerCred(fd)
	return Cred(cred), c.fault("get", err)
}
