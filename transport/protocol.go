// Package transport is I/O in the callback model: a Protocol is told what happens
// to a connection, and a Conn does what it is asked, at once or later, without
// ever waiting. It is the model of asyncio's transports and protocols, of libuv
// and of gnet, for very many cheap connections: an idle one is some 200 bytes.
//
//	type echo struct{}
//
//	func (echo) ConnectionMade(c *transport.Conn)            {}
//	func (echo) DataReceived(c *transport.Conn, data []byte) { c.Write(data) }
//	func (echo) ConnectionLost(c *transport.Conn, err error) {}
//
//	server, err := transport.Listen(l, "tcp", "127.0.0.1:9000", transport.Options{
//		Protocol: func() transport.Protocol { return echo{} },
//	})
//
// # What holds for every connection
//
// ConnectionMade is called first, and once; ConnectionLost last, and exactly once,
// however the connection ends: closed, aborted, ended or reset by the peer, timed
// out, left by a callback that panicked, or open when its loop was closed. Between
// them data comes in order. After Close or Abort no more comes.
//
// No callback is called from inside a method of the same Conn.
//
// # Writing
//
// Write never waits and never fails for want of room. Small writes of one turn of
// the loop are gathered and sent at its end, together; what the system does not
// take is kept, and sent when there is room. How much is kept is for the protocol
// to heed: at the high water mark it is told to pause, at the low one to go on.
//
// # TLS
//
// A server or client with a *tls.Config has its connections secured: they are made
// when hands are shaken, and then keep all these promises. A peer that ends without
// saying so, as one who cuts the connection would, is told by ConnectionLost with
// io.ErrUnexpectedEOF. Encryption is done on the loop; what a handshake computes is
// done by workers.
//
// # Which goroutine
//
// Everything is for callbacks of the connection's loop, or for before it runs; a
// call from another goroutine panics. Reach a connection from there by Post.
package transport

// Protocol is told what happens to a connection, on its loop. A protocol can serve
// one connection or many.
type Protocol interface {
	// ConnectionMade is the first call for a connection.
	ConnectionMade(c *Conn)
	// DataReceived brings what has come. The slice is only lent: what is to be
	// kept must be copied.
	DataReceived(c *Conn, data []byte)
	// ConnectionLost is the last call. Err is nil if the connection was closed
	// from here, or ended by the peer in order.
	ConnectionLost(c *Conn, err error)
}

// EOFReceiver is a Protocol that wants to know when the peer has closed its
// sending side.
type EOFReceiver interface {
	// EOFReceived tells that no more data will come. If it returns true the
	// connection stays open for writing; otherwise it is closed once
	// everything is written, as it is for protocols without this method.
	// That the peer is gone altogether is then noticed by the next write, if
	// not before.
	EOFReceived(c *Conn) (keepOpen bool)
}

// WritePauser is a Protocol that wants to know when it writes faster than the peer
// reads.
type WritePauser interface {
	// PauseWriting tells that more than the high water mark waits to be sent.
	PauseWriting(c *Conn)
	// ResumeWriting tells that no more than the low water mark does.
	ResumeWriting(c *Conn)
}

// BufferedProtocol is a Protocol whose data is read straight into a buffer of its
// own, in place of DataReceived.
type BufferedProtocol interface {
	Protocol
	// Buffer is where to read to; it must not be empty.
	Buffer(c *Conn) []byte
	// BufferUpdated tells that the first n bytes of it were filled.
	BufferUpdated(c *Conn, n int)
}
