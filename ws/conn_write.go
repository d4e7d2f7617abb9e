package ws

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/spindleloop/spindle/internal/deflate"
	"github.com/spindleloop/spindle/internal/wsframe"
)

// Write writes a message, waiting for room. Text must be UTF-8, which is not
// checked. It fails with net.ErrClosed after Close, and with ErrBusy while a Writer
// is open.
func (c *Conn) Write(ctx context.Context, kind Kind, message []byte) error {
	op := kind.op()
	if c.composing.Load() {
		return ErrBusy
	}
	if !c.rules.compresses(len(message)) {
		return c.writeFrame(ctx, op, wsframe.Fin, message)
	}
	b := buffers.Get().(*buffer)
	defer b.free()
	b.packed = deflate.Append(b.packed[:0], message, int(c.rules.level), int(c.rules.window))
	return c.writeFrame(ctx, op, wsframe.Fin|wsframe.Compressed, b.packed)
}

// Ping sends a ping with up to 125 bytes. The pong is not told of; who wants to know
// whether the peer is there sets Options.PingInterval.
func (c *Conn) Ping(ctx context.Context, payload []byte) error {
	if len(payload) > wsframe.MaxControl {
		return errPingTooLong
	}
	return c.writeFrame(ctx, wsframe.OpPing, wsframe.Fin, payload)
}

// buffer is room to put frames together.
type buffer struct{ frame, packed []byte }

var buffers = sync.Pool{New: func() any { return new(buffer) }}

func (b *buffer) free() {
	b.frame, b.packed = modest(b.frame), modest(b.packed)
	buffers.Put(b)
}

// gatherer is a connection that writes several buffers as one, like stream.Conn.
type gatherer interface {
	Writev(bufs [][]byte) (int64, error)
}

// writeFrame writes a frame by one call, so that frames of several tasks do not mix.
func (c *Conn) writeFrame(ctx context.Context, op wsframe.Op, flags wsframe.Flags, payload []byte) error {
	if c.closing.Load() && op != wsframe.OpClose || c.broken.Load() {
		return net.ErrClosed
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	b := buffers.Get().(*buffer)
	defer b.free()
	size := 0
	if c.rules.limits.Role == wsframe.Client {
		b.frame = wsframe.AppendMaskedFrame(b.frame[:0], op, flags, payload, c.key())
		size = len(b.frame)
	} else {
		b.frame = wsframe.AppendHead(b.frame[:0], op, flags, len(payload))
		size = len(b.frame) + len(payload)
	}
	c.writers.Add(1)
	release := bind(ctx, c.nc, c.nc.SetWriteDeadline)
	n, err := c.put(b, payload, size)
	release()
	c.writers.Add(-1)
	if err == nil {
		return nil
	}
	if err = endOf(ctx, err); (n == 0 || n == size) && ctx.Err() != nil {
		return err // nothing went out, or all will: another frame may follow
	}
	c.broken.Store(true)
	c.nc.Close() // who reads hears of it
	return err
}

func (c *Conn) put(b *buffer, payload []byte, size int) (int, error) {
	if size == len(b.frame) {
		return c.nc.Write(b.frame)
	}
	if g, ok := c.nc.(gatherer); ok && len(payload) > joined {
		n, err := g.Writev([][]byte{b.frame, payload})
		return int(n), err
	}
	b.frame = append(b.frame, payload...)
	return c.nc.Write(b.frame)
}

// Writer begins a message that is sent in pieces, as it is written; Close ends it.
// It is not compressed. Until it is closed, no other message can be written. Its
// calls end when ctx does.
func (c *Conn) Writer(ctx context.Context, kind Kind) (io.WriteCloser, error) {
	op := kind.op()
	if c.closing.Load() || c.broken.Load() {
		return nil, net.ErrClosed
	}
	if !c.composing.CompareAndSwap(false, true) {
		return nil, ErrBusy
	}
	return &messageWriter{c: c, ctx: ctx, op: op}, nil
}

// messageWriter sends a message in frames.
type messageWriter struct {
	c      *Conn
	ctx    context.Context
	op     wsframe.Op // of the next frame
	held   []byte     // less than a frame
	closed bool
}

// frameSize is how much a Writer puts into a frame.
const frameSize = 16 << 10

var errWriterClosed = errors.New("ws: Write after Close of a message")

func (w *messageWriter) Write(p []byte) (n int, err error) {
	if w.closed {
		return 0, errWriterClosed
	}
	for len(p) > 0 {
		if len(w.held) == frameSize {
			if err := w.send(0); err != nil {
				return n, err
			}
		}
		took := min(len(p), frameSize-len(w.held))
		w.held = append(w.held, p[:took]...)
		p = p[took:]
		n += took
	}
	return n, nil
}

// send sends what is held as a frame. If it was cancelled before anything went out,
// it can be tried again.
func (w *messageWriter) send(flags wsframe.Flags) error {
	if err := w.c.writeFrame(w.ctx, w.op, flags, w.held); err != nil {
		return err
	}
	w.op, w.held = wsframe.OpContinuation, w.held[:0]
	return nil
}

// Close sends the rest of the message.
func (w *messageWriter) Close() error {
	if w.closed {
		return errWriterClosed
	}
	w.closed = true
	err := w.send(wsframe.Fin)
	if err != nil && w.op == wsframe.OpContinuation {
		w.c.broken.Store(true) // a message without an end: nothing can follow
		w.c.nc.Close()
	}
	w.c.composing.Store(false)
	return err
}
