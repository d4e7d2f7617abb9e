package transport

import "net"

// Cred identifies the process at the other end of a Unix socket.
type Cred struct {
	PID      int // the process that connected or listened
	UID, GID int // its user and group
}

// PeerCred returns the credentials of the process at the other end of a Unix socket, as
// of when the connection was made. It is implemented on Linux. Elsewhere, and for
// other kinds of connections, the error is errors.ErrUnsupported.
func (c *Conn) PeerCred() (Cred, error) {
	c.checkLoop("PeerCred")
	fd := c.socket.FD()
	if fd < 0 {
		return Cred{}, c.opError("get", net.ErrClosed)
	}
	cred, err := c.st.sockets.K.Native().PeerCred(fd)
	return Cred(cred), c.opError("get", err)
}
