package transport

import "github.com/spindleloop/spindle/internal/sock"

// CloseConns closes every connection of the server, like Conn.Close: what was written
// is sent first. The server still accepts. For a graceful shutdown, call Drain before
// and AbortConns some time after:
//
//	server.Drain(done)
//	server.CloseConns()
//	server.Loop().CallLater(grace, server.AbortConns)
func (s *Server) CloseConns() {
	s.checkLoop("CloseConns")
	s.each((*Conn).beginClose)
}

// AbortConns ends every connection of the server at once, like Conn.Abort.
func (s *Server) AbortConns() {
	s.checkLoop("AbortConns")
	s.each(func(c *Conn) { c.lose(nil) })
}

// EachConn calls fn for every connection of the server.
func (s *Server) EachConn(fn func(*Conn)) {
	s.checkLoop("EachConn")
	s.each(fn)
}

// LeaveServer removes the connection from the server that accepted it. Drain no longer
// waits for it, CloseConns, AbortConns and EachConn skip it, and it does not count
// towards MaxConns. Use it for a connection that outlives the server.
func (c *Conn) LeaveServer() {
	c.checkLoop("LeaveServer")
	if s := c.server; s != nil {
		c.server = nil
		s.connLost()
	}
}

// each searches all connections of the loop. A list for each server would cost memory
// on every connection, for calls that are rare.
func (s *Server) each(fn func(*Conn)) {
	s.st.sockets.Each(func(o sock.Owner) {
		if c, ok := o.(*owner); ok && c.server == s {
			fn((*Conn)(c))
		}
	})
}
