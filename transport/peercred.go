package transport

import "net"

// PeerCred returns the process at the other end of a Unix socket, its user and its group, as
// of when it connected or listened. It is implemented on Linux. Elsewhere, and for
// other kinds of connections, the error is errors.ErrUnsupported.
func (c *Conn) PeerCred() (pid, uid, gid int, err error) {
	c.checkLoop("PeerCred")
	fd := c.socket.FD()
	if fd < 0 {
		return 0, 0, 0, c.opError("get", net.ErrClosed)
	}
	cred, err := c.st.sockets.K.Native().PeerCred(fd)
	return cred.PID, cred.UID, cred.GID, c.opError("get", err)
}
