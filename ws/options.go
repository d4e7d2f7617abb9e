package ws

import (
	"cmp"
	"compress/flate"
	"crypto/tls"
	"math"
	"net/http"
	"time"

	"github.com/spindleloop/spindle/internal/wsframe"
	"github.com/spindleloop/spindle/ws/internal/deflate"
)

// Options configures a connection. The zero value means no compression, messages of
// up to a megabyte, no pings, and handshakes only from pages of the same host.
type Options struct {
	// Subprotocols are those that this side supports, in order of preference. A
	// server chooses the first one that the client offers.
	Subprotocols []string

	// Header holds additional fields for the handshake: for a client's request or a
	// server's response.
	Header http.Header

	// CheckOrigin decides, on a server, whether a page with the request's Origin may
	// connect. Nil requires the page's host to be the request's host, so that other
	// sites cannot connect with a browser's cookies. Requests without an Origin do
	// not come from a page, and nil accepts them.
	CheckOrigin func(r *http.Request) bool

	// TLS is a client's configuration for "wss". Nil means an empty one.
	TLS *tls.Config

	// OnError is called if Connect fails. Connect requires it; other calls ignore it.
	OnError func(error)

	// HandshakeTimeout limits a client's handshake. Zero means 10 seconds.
	HandshakeTimeout time.Duration

	// CompressFrom is the size from which messages are compressed, if the peer
	// supports it. Zero means that compression is neither offered nor accepted.
	// Compression runs on the loop and takes about a millisecond for 100 KB.
	CompressFrom int

	// CompressLevel is the level for compress/flate, from 1 to 9. Zero means 1.
	CompressLevel int

	// MessageLimit is the maximum size of a received message, inflated. Zero means a
	// megabyte.
	MessageLimit int

	// FrameLimit is the maximum size of a received frame. Zero means MessageLimit,
	// or slightly more for compressed messages.
	FrameLimit int

	// FragmentLimit is the maximum number of frames in a received message. Zero
	// means one for each byte of MessageLimit, and at least 131,072.
	FragmentLimit int

	// ControlLimit is the maximum number of pings and pongs received in a second,
	// including the answers to our pings. Zero means 100.
	ControlLimit int

	// UnsentLimit is how many bytes may be buffered for a slow peer. Above it, Send
	// fails with ErrSlow and ends the connection. Zero means a megabyte. It is for
	// Sockets; a Conn's Write waits instead.
	UnsentLimit int

	// DropSlow makes Send drop the message above UnsentLimit, and fail with ErrSlow,
	// without ending the connection.
	DropSlow bool

	// PingInterval is the silence after which the peer is pinged. A Socket may ping
	// later, by up to the same time again; a Conn pings only during a read. Zero
	// means never.
	PingInterval time.Duration

	// PingTimeout limits the time for an answer to a ping. Zero means PingInterval.
	PingTimeout time.Duration

	// CloseTimeout limits the time for an answer to a Close. Zero means 5 seconds.
	CloseTimeout time.Duration
}

// rules are the options in force for a connection, including what was negotiated.
// They are immutable, and Sockets with equal rules share them.
type rules struct {
	st           *loopState // only for Sockets
	limits       wsframe.Limits
	subprotocol  string
	level        uint8
	window       uint8 // bits of the compression window
	dropSlow     bool
	compressFrom int // 0 means never
	controlLimit int
	unsentLimit  int
	pingInterval time.Duration
	pingTimeout  time.Duration // 0 means pingInterval
	closeTimeout time.Duration
}

// lingerTime is how long a peer has to read the last frame. Closing at once with
// unread data would make the system reset the connection, and the peer would lose
// the frame.
const lingerTime = time.Second

func (o *Options) rules(role wsframe.Role, a negotiated) *rules {
	r := &rules{
		subprotocol:  a.subprotocol,
		dropSlow:     o.DropSlow,
		controlLimit: min(limit(o.ControlLimit, 100), math.MaxUint16-1),
		unsentLimit:  limit(o.UnsentLimit, 1<<20),
		pingInterval: max(o.PingInterval, 0),
		pingTimeout:  max(o.PingTimeout, 0),
		closeTimeout: cmp.Or(max(o.CloseTimeout, 0), 5*time.Second),
	}
	r.limits.Role = role
	r.limits.Message = limit(o.MessageLimit, 1<<20)
	r.limits.Frame = limit(o.FrameLimit, r.limits.CompressedMessage())
	r.limits.Fragments = min(limit(o.FragmentLimit, max(r.limits.CompressedMessage(), 1<<17)), math.MaxInt32)
	if a.extension.deflate {
		r.limits.Deflate = true
		r.compressFrom = o.CompressFrom
		r.level = uint8(min(max(o.CompressLevel, flate.BestSpeed), flate.BestCompression))
		r.window = uint8(cmp.Or(a.extension.window, deflate.MaxWindow))
	}
	return r
}

// limit returns n, or zero's value if n is not positive. The result is capped so
// that adding to it cannot overflow.
func limit(n, zero int) int {
	if n <= 0 {
		return zero
	}
	return min(n, math.MaxInt/2)
}

// compresses reports whether a message of n bytes is to be compressed.
func (r *rules) compresses(n int) bool { return r.compressFrom > 0 && n >= r.compressFrom }
