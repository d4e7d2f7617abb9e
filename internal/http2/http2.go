// Package http2 reads and writes HTTP/2 connections. It does no I/O and has no clock, like
// package http1. It is for servers and clients that receive bytes as they arrive and send
// Conn.Out themselves.
//
//	for {
//		n, event, err := c.Parse(data)
//		if err != nil {
//			return err // an *Error; Out ends with the GOAWAY that says so
//		}
//		data = data[n:]
//		switch event {
//		case http2.More: // all of data is used
//			return nil
//		case http2.Head: // c.Head() begins a message on stream c.ID(): Open it, or Reject it
//		case http2.Data: // c.Data() is the next piece of the body of c.Stream()
//		case http2.End:  // the message of c.Stream() is complete
//		…
//		}
//	}
//
// # What Parse does itself
//
// Parse checks the peer's frames and answers those that need no decision: it acknowledges
// SETTINGS and PING, resets streams on which the peer makes a mistake, and keeps all flow
// control windows. The answers are in Out, with what the caller sends. A caller that sends
// Out once a turn sends everything with one system call.
//
// # A stream
//
//	            ┌──peer ends──▶ halfPeer ──own end──┐
//	idle ──▶ open                                   ▼
//	   │        └──own end───▶ halfOwn ──peer ends─▶ closed
//	   └──────────────────────any reset──────────────▲
//
// # A connection
//
//	greeting ──SETTINGS──▶ open ──Leave──▶ leaving ──LeaveFinally──▶ left
//	    └────────────────────┴──any error──────┴────────────────────▶ failed
//
// A step that is not in the drawings panics.
//
// # Leaving
//
// Leave announces the end with a GOAWAY that refuses nothing, and a PING. The peer sends no
// new requests after it has read them, and those that it sent before arrive before the
// answer to the PING, which is the event Pong. LeaveFinally then names the last request that
// is answered. So no request is lost.
//
// # Header fields
//
// Fields are decoded with the tables of golang.org/x/net/http2/hpack. They are encoded without
// a dynamic table (AppendField), so the bytes of a header do not depend on the connection or
// on the order of responses. Any goroutine can make them, and an idle connection keeps no table for it.
//
// A Conn, and all that have the same Shared, belong to one goroutine.
package http2

// Preface is what a client sends first.
const Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// Role is the side of a connection.
type Role uint8

// The roles.
const (
	Server Role = iota
	Client
)

// Event is what Parse has found.
type Event uint8

// The events.
const (
	More     Event = iota // all of data is used
	Head                  // a message begins: see Conn.Head, ID and Ends
	Data                  // a piece of a body: see Conn.Data and Stream; never empty
	End                   // the message of Stream is complete; Head has its trailers, if any
	Reset                 // the peer has reset Stream: see Code
	Failed                // Parse has reset Stream, because of a mistake of the peer: see Code
	Writable              // windows have grown: more data may be sent
	Pong                  // the peer has answered a PING of Ping or Leave
	Goodbye               // the peer has sent GOAWAY: see LastID and Code
	Updated               // the peer has changed the priority of Stream
	Hasty                 // many frames made no progress: a server waits HastyPause before it parses more
)

func (e Event) String() string {
	return [...]string{"More", "Head", "Data", "End", "Reset", "Failed", "Writable", "Pong", "Goodbye", "Updated", "Hasty"}[e]
}

// Config configures the connections of a Shared. The zero value has useful limits.
type Config struct {
	Role Role
	// MaxStreams limits the streams that the peer may have open. Zero means 250.
	MaxStreams int
	// MaxFrame limits the payload of a frame that the peer may send: 16384, which zero
	// means, to 1<<24-1.
	MaxFrame int
	// StreamWindow and ConnWindow limit what the peer may send before it is consumed. Zero
	// means 256 KB and 1 MB.
	StreamWindow, ConnWindow int
	// TableBytes limits the table with which the peer compresses headers. Zero means 4096.
	TableBytes int
	// HeaderBytes limits a header, as the sum of its names and values. Zero means 65536.
	HeaderBytes int
	// FieldCount limits the fields of a header. Zero means 128.
	FieldCount int
	// ExtendedConnect accepts CONNECT with the field :protocol.
	ExtendedConnect bool
}

func (o Config) withDefaults() Config {
	set := func(v *int, zero, least, most int) {
		if *v <= 0 {
			*v = zero
		}
		*v = min(max(*v, least), most)
	}
	set(&o.MaxStreams, 250, 1, 1<<30)
	set(&o.MaxFrame, 16<<10, 16<<10, 1<<24-1)
	set(&o.StreamWindow, 256<<10, defaultWindow, 1<<30)
	set(&o.ConnWindow, 1<<20, defaultWindow, 1<<30)
	set(&o.TableBytes, defaultTable, 0, 1<<20)
	set(&o.HeaderBytes, 64<<10, 1, 1<<30)
	set(&o.FieldCount, 128, 1, 1<<30)
	return o
}

// What holds before the SETTINGS of a peer.
const (
	defaultWindow = 65535
	defaultTable  = 4096
	defaultFrame  = 16 << 10
	largestWindow = 1<<31 - 1
)
