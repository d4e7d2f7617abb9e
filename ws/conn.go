package ws

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/internal/wsframe"
	"github.com/spindleloop/spindle/loop"
)

// Conn is a WebSocket for straight-line code, in a task or on a goroutine, over any
// net.Conn. Accept and Dial return one.
//
// One caller at a time may read, while others write. Messages written by Write never
// mix. Pings and the peer's Close are answered only during a read. When the context
// of a call is done, the call fails with the context's cause, or in a task like any
// other cancelled wait. A cancelled Read has
// lost nothing, and the next one continues. A Write that is cancelled within a
// message ends the connection, because nothing can follow a partial message.
type Conn struct {
	nc    net.Conn
	rules *rules
	now   func() time.Time
	rand  func() uint64 // for masking keys; set for clients

	closing    atomic.Bool  // our Close was sent
	broken     atomic.Bool  // nothing can be written any more
	reading    atomic.Bool  // a read is in progress
	writerOpen atomic.Bool  // a Writer is open
	writers    atomic.Int32 // writes in progress

	reads, writes deadline

	// Guarded by reading.
	in         wsframe.Decoder
	buf        []byte // bytes read ahead are buf[from:to]
	from, to   int
	smallReads int            // consecutive small reads into a large buffer
	message    []byte         // the message so far, or the last one
	inflated   []byte         // the last message, if it was compressed
	current    *messageReader // of a message that is not fully read, or nil
	err        error          // why reading has ended
	second     int64          // Unix time of the last control frame
	controls   int            // control frames received in that second
}

// A Conn reads into a buffer of minBuffer bytes. A full buffer is replaced by a
// larger one, up to maxBuffer, and a large buffer by a small one after shrinkAfter
// small reads.
const (
	minBuffer   = 1 << 10
	maxBuffer   = 64 << 10
	shrinkAfter = 8
)

func newConn(nc net.Conn, r *rules, early []byte) *Conn {
	c := &Conn{nc: nc, rules: r, now: time.Now}
	c.buf = make([]byte, max(minBuffer, len(early)))
	c.to = copy(c.buf, early)
	return c
}

// Subprotocol returns the negotiated subprotocol, or "" if there is none.
func (c *Conn) Subprotocol() string { return c.rules.subprotocol }

// NetConn returns the underlying connection, for its addresses and options.
func (c *Conn) NetConn() net.Conn { return c.nc }

// followContext makes calls of nc fail when ctx is done, by setting a deadline in
// the past. The returned function undoes that. It does nothing for a call in the
// task's own scope, because that scope's cancellation reaches every wait of the
// task.
func followContext(ctx context.Context, nc net.Conn, setDeadline func(time.Time) error) (release func()) {
	if ctx.Done() == nil || calledInScope(ctx, nc) {
		return func() {}
	}
	after := context.AfterFunc
	if _, ok := nc.(taskConn); ok {
		if l := loop.Internal().Current(); l != nil {
			after = l.Internal().AfterFunc // which a simulated world knows
		}
	}
	var mu sync.Mutex
	released := false
	stop := after(ctx, func() {
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

// taskConn is a connection of package stream: its calls end with the scope of the
// calling task.
type taskConn interface {
	ReadBorrow() ([]byte, error)
}

func calledInScope(ctx context.Context, nc net.Conn) bool {
	_, ok := ctx.(*spindle.Scope)
	if !ok {
		return false
	}
	_, ok = nc.(taskConn)
	return ok && coro.Here(spindle.LoopOf(ctx)) == ctx
}

// contextError returns the error of ctx if err is due to followContext, and err
// otherwise.
func contextError(ctx context.Context, err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return cmp.Or(ended(ctx), err)
	}
	return err
}

// ended returns the error of a call if its context is done, otherwise nil. In
// a task it is that of a cancelled wait: a scope absorbs its own cancellation, and only
// that.
func ended(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	if spindle.Current(ctx) != nil {
		if err := spindle.Checkpoint(ctx); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// maskKey returns the masking key for one frame.
func (c *Conn) maskKey() (k wsframe.Key) {
	binary.LittleEndian.PutUint32(k[:], uint32(c.rand()))
	return k
}
