package probe

import "time"

// Socket describes a watched descriptor.
type Socket struct {
	Token      uint64 // identifies the watch
	FD         int
	Kind       string // transport, stream, packet, listener, watch
	Protocol   string
	State      string // open, handshaking, closing, shut
	TLS        bool
	Counted    bool // In and Out are known
	In, Out    uint64
	Unsent     int
	High, Low  int
	ReadPaused bool

	WritePaused bool
	HasRequest  bool
	Request     Request
	Streams     *Streams // of an HTTP/2 connection
}

// Streams describes an HTTP/2 connection: its windows, and its streams by number.
type Streams struct {
	SendWindow, ReceiveWindow int
	All                       []Stream
}

// Stream is a request of an HTTP/2 connection. Queued bytes of the response wait for the
// client, and Unread bytes of the request for the handler.
type Stream struct {
	ID                        uint32
	SendWindow, ReceiveWindow int
	Queued, Unread            int
	Urgency                   uint8
	HasRequest                bool // not if a lean handler answers
	Request                   Request
}

// SocketWatcher is implemented by the watchers of descriptors.
type SocketWatcher interface {
	// ProbeSocket describes the socket. It makes no system calls.
	ProbeSocket(s *Socket)
	// AbortSocket ends the connection.
	AbortSocket()
}

// Protocol is implemented by protocols of connections.
type Protocol interface {
	// ProbeProtocol sets Protocol, and Request if there is one.
	ProbeProtocol(s *Socket)
}

// Listeners is implemented by the state that the packages of sockets keep with a loop.
type Listeners interface {
	// EachListener calls fn for every open listener.
	EachListener(fn func(fd int, paused bool))
}

// Traffic is implemented by the state that the packages of sockets keep with a loop.
type Traffic interface {
	// Traffic returns the bytes that sockets have received and sent so far.
	Traffic() (in, out uint64)
}

// Request describes an HTTP request.
type Request struct {
	Method, Target, Peer string
	Phase                string // body, handling, sending, file
	Inline               bool   // the handler runs in a task
	Status               int
	Written              int64
	Since                time.Duration // on the loop's clock
	Scope                uintptr       // of an inline handler
}

// Requests is implemented by the state that package web keeps with a loop.
type Requests interface {
	// MeterRequests makes the server count its requests in m, or stops it if m is nil.
	MeterRequests(m *RequestMeter)
}

// RequestBuckets are the upper bounds of the buckets of RequestMeter.
var RequestBuckets = [...]time.Duration{
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
}

// RequestMeter counts HTTP requests. Loop goroutine only.
type RequestMeter struct {
	Classes [6]uint64 // by the first digit of the status; 0 for none
	Durations
}

// Add counts an answered request.
func (m *RequestMeter) Add(status int, took time.Duration) {
	class := status / 100
	if class < 0 || class >= len(m.Classes) {
		class = 0
	}
	m.Classes[class]++
	m.Durations.Add(took)
}
