package transport

import "net"

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
