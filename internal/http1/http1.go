// Package http1 reads and writes HTTP/1.1 messages: strict, incremental, without
// I/O, and without allocation once it runs. It is for a server's or client's
// protocol that gets bytes as they come and has a connection to write to.
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
//	        │ anything wrong                       └───────┘
//	        ▼
//	     an error, and the same one for ever
//
// Every message is one Head, any number of Data and one End. More comes between
// any two of them when data has run out, and says that all of it was used. The
// events of a stream of bytes do not depend on how it was cut into pieces, except
// that a body comes in other pieces.
//
// Bytes after an End are not looked at before they are asked for: a server that
// has not answered a request need not parse the next, and one that changes to
// another protocol finds what is left in data[n:]. A client is told so by Switch.
//
// # Whose bytes
//
// Everything a parser returns is a part of data, or of a buffer of its own if a
// head came in pieces, and is valid until the next call of Parse. Nothing is
// copied if a head comes in one piece.
//
// While Idle, a parser holds nothing of a connection: connections can share one,
// and take their own only while a message is under way.
//
// # Why so strict
//
// Two programs that read the same bytes differently are how requests are smuggled
// past the first of them. So everything that is ambiguous is refused, and whatever
// net/http refuses; what both accept means the same to both. docs/design/013-http1.md
// lists where this package is the stricter one.
//
// A parser is for one goroutine at a time.
package http1

// Event is what Parse has come to.
type Event uint8

// The events of a message, in the order they come.
const (
	More   Event = iota // all of data is used; the next event takes more
	Head                // the first line and the header are complete
	Data                // a piece of the body; never empty
	End                 // the message is complete
	Switch              // complete, and what follows is not HTTP: responses only
)

func (e Event) String() string {
	return [...]string{"More", "Head", "Data", "End", "Switch"}[e]
}

// Version is a message's version of HTTP/1.
type Version uint8

// The versions there are.
const (
	HTTP11 Version = iota
	HTTP10
)

func (v Version) String() string {
	return [...]string{"HTTP/1.1", "HTTP/1.0"}[v]
}

// Limits are how large the parts of a message may be. Its zero value has useful
// limits for everything but the body.
type Limits struct {
	// RequestLine is for the bytes of the request line, or of a response's
	// status line. Zero means 8192.
	RequestLine int
	// HeaderBytes is for the header, all lines together. Zero means 65536.
	HeaderBytes int
	// FieldCount is for the fields of a header, and of a trailer section. Zero
	// means 128.
	FieldCount int
	// ChunkExtensionBytes is for the chunk extensions of a message, all
	// together. Zero means 1024.
	ChunkExtensionBytes int
	// TrailerBytes is for the trailer section. Zero means 4096.
	TrailerBytes int
	// BodyBytes is for the body. Zero means that there is no limit: the parser
	// does not keep it.
	BodyBytes int64
}

// largest is for limits that count bytes: offsets into a head have 32 bits.
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
