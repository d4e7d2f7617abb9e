// Package http1 reads and writes HTTP/1.1 messages. It is strict and incremental, does
// no I/O, and allocates nothing in steady state. It is for servers and clients that
// receive bytes as they arrive and write to a connection themselves.
//
//	p := http1.NewRequestParser(http1.Limits{})
//	for {
//		n, event, err := p.Parse(data)
//		if err != nil {
//			return err // an *Error, with the status to answer with
//		}
//		data = data[n:]
//		switch event {
//		case http1.More: // all of data is used
//			return nil
//		case http1.Head: // p.Method(), p.Target(), p.Get("Accept"), …
//		case http1.Data: // p.Data() is the next piece of the body
//		case http1.End:  // the message is complete; p.Get is for trailers now
//		}
//	}
//
// # What Parse returns
//
//	        ┌──────────────── End ◀───────────────────────┐
//	        ▼                                             │ no body
//	    ┌───────┐  head complete   ┌──────┐               │
//	──▶ │ idle, │ ───────────────▶ │ Head │ ──────────────┤
//	    │ head  │                  └──┬───┘               │ all of it
//	    └───────┘                     │ some body  ┌──────┴┐
//	        │                         └──────────▶ │ Data… │
//	        │ anything invalid                     └───────┘
//	        ▼
//	     an error; every later call returns the same one
//
// Every message is one Head, any number of Data and one End. Parse returns More
// whenever data has run out, after using all of it. The events of a stream do not
// depend on how it is split into pieces, except for the pieces of a body.
//
// Parse does not read past an End before it is called again. So a server need not
// parse the next request before it has answered the current one, and a server that
// changes to another protocol finds the remaining bytes in data[n:]. For a client, the
// event Switch reports that change.
//
// # Ownership of bytes
//
// All bytes that a parser returns are part of data, or of the parser's buffer if a
// head came in pieces. They are valid until the next call of Parse. Nothing is copied
// if a head comes in one piece.
//
// While Idle, a parser holds no data of a connection. Idle connections can share one
// parser and take their own only while a message is incomplete.
//
// # Strictness
//
// Request smuggling needs two programs that read the same bytes differently. So this
// package refuses everything ambiguous, and everything that net/http refuses. A
// message that both accept has the same meaning for both. docs/design/013-http1.md
// lists where this package is stricter.
//
// A parser is for one goroutine at a time.
package http1

// Event is what Parse has found.
type Event uint8

// The events of a message, in order.
const (
	More   Event = iota // all of data is used; the next event needs more
	Head                // the first line and the header are complete
	Data                // a piece of the body; never empty
	End                 // the message is complete
	Switch              // complete, and the following bytes are not HTTP: responses only
)

func (e Event) String() string {
	return [...]string{"More", "Head", "Data", "End", "Switch"}[e]
}

// Version is the HTTP version of a message.
type Version uint8

// The supported versions.
const (
	HTTP11 Version = iota
	HTTP10
)

func (v Version) String() string {
	return [...]string{"HTTP/1.1", "HTTP/1.0"}[v]
}

// Limits limits the parts of a message. Its zero value has useful limits for everything
// but the body.
type Limits struct {
	// RequestLine limits the bytes of a request line or a status line. Zero means
	// 8192.
	RequestLine int
	// HeaderBytes limits the bytes of all header lines together. Zero means 65536.
	HeaderBytes int
	// FieldCount limits the number of fields in a header and in a trailer section.
	// Zero means 128.
	FieldCount int
	// ChunkExtensionBytes limits the bytes of all chunk extensions of a message
	// together. Zero means 1024.
	ChunkExtensionBytes int
	// TrailerBytes limits the bytes of the trailer section. Zero means 4096.
	TrailerBytes int
	// BodyBytes limits the bytes of the body. Zero means no limit: the parser does
	// not buffer the body.
	BodyBytes int64
}

// largest is the maximum for limits in bytes: offsets into a head have 32 bits.
const largest = 1 << 30

func (l Limits) withDefaults() Limits {
	set := func(v *int, zero int) {
		if *v < 0 {
			panic("http1: negative limit")
		}
		if *v == 0 {
			*v = zero
		}
		*v = min(*v, largest)
	}
	set(&l.RequestLine, 8192)
	set(&l.HeaderBytes, 65536)
	set(&l.FieldCount, 128)
	set(&l.ChunkExtensionBytes, 1024)
	set(&l.TrailerBytes, 4096)
	if l.BodyBytes < 0 {
		panic("http1: negative limit")
	}
	return l
}
