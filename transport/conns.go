package transport

import "github.com/spindleloop/spindle/internal/sock"

// CloseConns closes every connection that the server has, like Conn.Close: what was
// written is sent first. The server goes on; to end it in order, Drain comes before,
// and AbortConns after some time:
//
//	server.Drain(done)
//	server.CloseConns()
//	server.Loop().CallLater(grace, server.AbortConns)
func (s *Server) CloseConns() {
	s.only("CloseConns")
	s.each((*Conn).beginClose)
}

// AbortConns ends every connection that the server has, at once, like Conn.Abort.
func (s *Server) AbortConns() {
	s.only("AbortConns")
	s.each(func(c *Conn) { c.lose(nil) })
}

// EachConn calls fn for every connection that the server has.
func (s *Server) EachConn(fn func(*Conn)) {
	s.only("EachConn")
	s.each(fn)
}

// LeaveServer takes the connection out of the server that accepted it. Drain does not wait
// for it any more, CloseConns, AbortConns and EachConn leave it alone, and it does not
// count for MaxConns. It is for a connection whose owner goes on after the server's end.
func (c *Conn) LeaveServer() {
	c.only("LeaveServer")
	if s := c.server; s != nil {
		c.server = nil
		s.forget()
	}
}

// each looks through all connections of the loop: a server that is not about to
// end has no use for a list of its own.
func (s *Server) each(fn func(*Conn)) {
	s.st.hub.Each(func(o sock.Owner) {
		if c, ok := o.(*owner); ok && c.server == s {
			fn((*Conn)(c))
		}
	})
}
