package ws

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/wsframe"
)

// Conn is a WebSocket for straight-line code, in a task or on a goroutine, on any
// net.Conn. Accept and Dial make them.
//
// One at a time may read, and others may write meanwhile; whole messages by Write
// never mix. Pings are answered, and a Close is, while somebody reads. Calls that
// wait end with the error of their ctx when that ends: a Read has then lost
// nothing, and the next one goes on; a Write that was cut inside a message ends the
// connection, as nothing can follow.
type Conn struct {
	nc          net.Conn
	rules       rules
	subprotocol string
	now         func() time.Time
	rand        func() uint64 // of clients

	closing   atomic.Bool // our Close was sent
	broken    atomic.Bool // nothing can be written any more
	reading   atomic.Bool // somebody reads
	composing atomic.Bool // a Writer is open

	// For who reads.
	in       wsframe.Decoder
	buf      []byte // read ahead: buf[from:to]
	from, to int
	message  []byte         // the message so far, or the last one
	inflated []byte         // the last one, if it was compressed
	current  *messageReader // of a message that was not read to its end; else nil
	ended    error          // why no more will come
	second   int64          // in which the last control frame came
	controls int            // how many did
}

const (
	// firstBuffer is what a Conn reads into at first; if that is filled, it
	// gets a larger one.
	firstBuffer = 4 << 10
	largeBuffer = 64 << 10
)

func newConn(nc net.Conn, r rules, subprotocol string, early []byte) *Conn {
	c := &Conn{nc: nc, rules: r, subprotocol: subprotocol, now: time.Now}
	c.in = wsframe.NewDecoder(r.role, &c.rules.limits)
	c.buf = make([]byte, max(firstBuffer, len(early)))
	c.to = copy(c.buf, early)
	return c
}

// Subprotocol is what was agreed on, "" if nothing.
func (c *Conn) Subprotocol() string { return c.subprotocol }

// Compressed tells whether the peer takes compressed messages.
func (c *Conn) Compressed() bool { return c.rules.limits.Deflate }

// NetConn is the connection underneath, for its addresses and options.
func (c *Conn) NetConn() net.Conn { return c.nc }

// bind has calls of the connection end when ctx does, by a deadline in the past.
// What it returns takes that back. A task's own scope needs none of it: it reaches
// every wait of the task.
func bind(ctx context.Context, nc net.Conn, setDeadline func(time.Time) error) (release func()) {
	if ctx.Done() == nil || inScope(ctx, nc) {
		return func() {}
	}
	var mu sync.Mutex
	released := false
	stop := context.AfterFunc(ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		if !released {
			setDeadline(time.Unix(1, 0))
		}
	})
	return func() {
		if stop() {
			return
		}
		mu.Lock()
		released = true
		mu.Unlock()
		setDeadline(time.Time{})
	}
}

// ofTasks is a connection whose calls end with the scope of the task that calls:
// those of package stream.
type ofTasks interface {
	ReadBorrow() ([]byte, error)
}

func inScope(ctx context.Context, nc net.Conn) bool {
	scope, ok := ctx.(*spindle.Scope)
	if !ok {
		return false
	}
	_, ok = nc.(ofTasks)
	return ok && spindle.Background(scope).Here() == ctx
}

// endOf is the error of ctx if that is why err is what it is.
func endOf(ctx context.Context, err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// key is for one frame.
func (c *Conn) key() (k wsframe.Key) {
	binary.LittleEndian.PutUint32(k[:], uint32(c.rand()))
	return k
}
