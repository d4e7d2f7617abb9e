package ws

import (
	"cmp"
	"compress/flate"
	"crypto/tls"
	"math"
	"net/http"
	"time"

	"github.com/spindleloop/spindle/internal/deflate"
	"github.com/spindleloop/spindle/internal/wsframe"
)

// Options are how to speak. The zero value does: no compression, messages of up to
// a megabyte, no pings, handshakes from pages of the same host only.
type Options struct {
	// Subprotocols are those that this side speaks, the best first. A server
	// chooses the first of them that the client has asked for.
	Subprotocols []string

	// Header is more to say in the handshake: in a client's request or a
	// server's answer.
	Header http.Header

	// CheckOrigin decides, for servers, whether a page that Origin names may
	// connect. Nil wants the host of the page to be that of the request, which
	// keeps strange pages from speaking with a browser's cookies. Requests
	// without Origin do not come from a page, and are not checked by nil.
	CheckOrigin func(r *http.Request) bool

	// TLS is how a client secures "wss". Nil is an empty one.
	TLS *tls.Config

	// HandshakeTimeout is how long a client tries. Zero means 10 seconds.
	HandshakeTimeout time.Duration

	// CompressFrom is how large messages must be to be compressed, if the peer
	// wants it too. Zero means that compression is neither offered nor accepted.
	// It is done on the loop: a millisecond for 100 KB.
	CompressFrom int

	// CompressLevel is flate's, from 1 to 9. Zero means 1.
	CompressLevel int

	// MessageLimit is how many bytes a message that comes may have, inflated.
	// Zero means a megabyte.
	MessageLimit int

	// FrameLimit is how many bytes one frame of it may have. Zero means
	// MessageLimit, or little more if it is compressed.
	FrameLimit int

	// FragmentLimit is how many frames it may have. Zero means one for each byte of
	// MessageLimit, and at least 131,072.
	FragmentLimit int

	// ControlLimit is how many pings and pongs may come in a second, pongs that
	// were asked for among them. Zero means 100.
	ControlLimit int

	// UnsentLimit is how many bytes may wait for a peer that reads slowly before
	// Slow decides what becomes of it. Zero means a megabyte. It is for Sockets:
	// who writes to a Conn waits.
	UnsentLimit int

	// Slow is what Send does at UnsentLimit. Zero cuts the peer off.
	Slow Slow

	// PingInterval is after how long a silence the peer is asked whether it is
	// there: a Socket may ask later by as much again, a Conn asks while it
	// reads. Zero means never.
	PingInterval time.Duration

	// PingTimeout is how long it may take to answer. Zero means PingInterval.
	PingTimeout time.Duration

	// CloseTimeout is how long it may take to answer a Close. Zero means 5
	// seconds.
	CloseTimeout time.Duration
}

// Slow is what to do with a peer that reads too slowly.
type Slow uint8

// What can be done.
const (
	CutOff Slow = iota // end the connection, with ErrSlow
	Drop               // drop the message: Send fails with ErrSlow
)

// rules are what of the options a connection goes by, and what was negotiated.
// They do not change, and Sockets with the same share them.
type rules struct {
	st           *station // of Sockets
	limits       wsframe.Limits
	subprotocol  string
	level        uint8
	window       uint8 // bits of it that may be used to compress
	slow         Slow
	compressFrom int // 0 for nothing
	controls     int
	unsent       int
	pingInterval time.Duration
	pingTimeout  time.Duration // 0 for the interval in force
	closeTimeout time.Duration
}

// lingerTime is how long a peer has to read what it was told at last. To close at
// once, with bytes of it unread, would have the system take that back.
const lingerTime = time.Second

func (o *Options) rules(role wsframe.Role, a agreed) *rules {
	r := &rules{
		subprotocol:  a.subprotocol,
		slow:         o.Slow,
		controls:     min(limit(o.ControlLimit, 100), math.MaxUint16-1),
		unsent:       limit(o.UnsentLimit, 1<<20),
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

// limit is n, or what zero or less means. There is room to add to the largest.
func limit(n, zero int) int {
	if n <= 0 {
		return zero
	}
	return min(n, math.MaxInt/2)
}

// compresses tells whether a message of n bytes is to be compressed.
func (r *rules) compresses(n int) bool { return r.compressFrom > 0 && n >= r.compressFrom }
