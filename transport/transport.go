// Package transport is I/O in the callback model. A Protocol receives the events of a
// connection; the methods of a Conn never wait. It is the model of asyncio's
// transports and protocols, of libuv and of gnet. It is meant for very many cheap
// connections: an idle one takes about 160 bytes.
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
// # Guarantees
//
// ConnectionMade is the first callback of a connection and is called once.
// ConnectionLost is the last and is called exactly once, however the connection ends:
// closed, aborted, ended or reset by the peer, timed out, failed by a callback that
// panicked, or open when its loop was closed. Between them data arrives in order.
// After Close or Abort no more data is delivered.
//
// No callback is called from inside a method of the same Conn.
//
// # Writing
//
// Write never waits, and never fails because a buffer is full. Small writes of one turn
// of the loop are gathered and sent together at its end. What the system does not take
// is queued and sent later. The protocol is responsible for backpressure: PauseWriting
// is called at the high water mark of the queue, ResumeWriting at the low one.
//
// # TLS
//
// A server or client with a *tls.Config secures its connections. ConnectionMade is
// called after the handshake, and the same guarantees hold. If the peer ends the
// connection without a close_notify alert, as an attacker could, ConnectionLost gets
// io.ErrUnexpectedEOF. Encryption runs on the loop, handshakes on workers.
//
// # Goroutines
//
// Call everything from callbacks of the connection's loop, or before the loop runs. A
// call from another goroutine panics; use Post to reach a connection from there.
package transport

// Protocol receives the events of a connection, on its loop. A protocol can serve one
// connection or many.
type Protocol interface {
	// ConnectionMade is the first call for a connection.
	ConnectionMade(c *Conn)
	// DataReceived delivers received bytes. The slice is valid only during the
	// call; copy what must be kept.
	DataReceived(c *Conn, data []byte)
	// ConnectionLost is the last call. err is nil if the connection was closed on
	// this side, or ended by the peer in the regular way.
	ConnectionLost(c *Conn, err error)
}

// EOFReceiver is a Protocol that is notified when the peer closes its sending side.
type EOFReceiver interface {
	// EOFReceived is called when no more data will arrive. If it returns true the
	// connection stays open for writing. Otherwise it is closed once everything
	// is written, as for protocols without this method. On a connection kept
	// open, a peer that is gone altogether may be noticed only by the next write.
	EOFReceived(c *Conn) (keepOpen bool)
}

// WritePauser is a Protocol that is notified when it writes faster than the peer reads.
type WritePauser interface {
	// PauseWriting is called when more bytes than the high water mark are unsent.
	PauseWriting(c *Conn)
	// ResumeWriting is called when no more than the low water mark are unsent.
	ResumeWriting(c *Conn)
}

// BufferedProtocol is a Protocol that supplies the buffer to read into. DataReceived is
// then not called.
type BufferedProtocol interface {
	Protocol
	// Buffer returns the slice to read into. It must not be empty.
	Buffer(c *Conn) []byte
	// BufferUpdated is called when the first n bytes of the slice were filled.
	BufferUpdated(c *Conn, n int)
}
