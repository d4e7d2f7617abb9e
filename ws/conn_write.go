package ws

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/spindleloop/spindle/internal/wsframe"
	"github.com/spindleloop/spindle/stream"
	"github.com/spindleloop/spindle/ws/internal/deflate"
)

// Write writes a message, waiting while the connection's buffer is full. Text must
// be UTF-8; Write does not check that. It fails with net.ErrClosed after Close, and
// with ErrBusy while a Writer is open.
func (c *Conn) Write(ctx context.Context, kind Kind, message []byte) error {
	op := kind.op()
	if c.writerOpen.Load() {
		return ErrBusy
	}
	if !c.rules.compresses(len(message)) {
		return c.writeFrame(ctx, op, wsframe.Fin, message)
	}
	b := buffers.Get().(*buffer)
	defer b.free()
	b.compressed = deflate.Append(b.compressed[:0], message, int(c.rules.level), int(c.rules.window))
	return c.writeFrame(ctx, op, wsframe.Fin|wsframe.Compressed, b.compressed)
}

// buffer holds memory for building a frame.
type buffer struct{ frame, compressed []byte }

var buffers = sync.Pool{New: func() any { return new(buffer) }}

func (b *buffer) free() {
	b.frame, b.compressed = reusable(b.frame), reusable(b.compressed)
	buffers.Put(b)
}

// vectorWriter is a connection that writes several buffers at once, such as a
// stream.Conn.
type vectorWriter interface {
	Writev(bufs [][]byte) (int, error)
}

var _ vectorWriter = (*stream.Conn)(nil)

// writeFrame writes a frame with one call, so that frames of several tasks do not
// mix.
func (c *Conn) writeFrame(ctx context.Context, op wsframe.Op, flags wsframe.Flags, payload []byte) error {
	if c.closing.Load() && op != wsframe.OpClose || c.broken.Load() {
		return net.ErrClosed
	}
	if err := ended(ctx); err != nil {
		return err
	}
	b := buffers.Get().(*buffer)
	defer b.free()
	size := 0
	if c.rules.limits.Role == wsframe.Client {
		b.frame = wsframe.AppendMaskedFrame(b.frame[:0], op, flags, payload, c.maskKey())
		size = len(b.frame)
	} else {
		b.frame = wsframe.AppendHead(b.frame[:0], op, flags, len(payload))
		size = len(b.frame) + len(payload)
	}
	c.writers.Add(1)
	release := followContext(ctx, c.nc, c.setWriteDeadline)
	n, err := c.writeBuffers(b, payload, size)
	release()
	c.writers.Add(-1)
	if err == nil {
		return nil
	}
	if err = contextError(ctx, err); (n == 0 || n == size) && ctx.Err() != nil {
		return err // nothing was sent, or all of it will be: another frame may follow
	}
	c.broken.Store(true)
	c.nc.Close() // ends a pending read
	return err
}

func (c *Conn) writeBuffers(b *buffer, payload []byte, size int) (int, error) {
	if size == len(b.frame) {
		return c.nc.Write(b.frame)
	}
	if g, ok := c.nc.(vectorWriter); ok && len(payload) > maxJoinedPayload {
		return g.Writev([][]byte{b.frame, payload})
	}
	b.frame = append(b.frame, payload...)
	return c.nc.Write(b.frame)
}

// Writer starts a message that is sent in fragments as it is written. Closing the
// returned io.WriteCloser ends the message. The message is not compressed. Until the
// Writer is closed, no other message can be written. Calls of the Writer fail when
// ctx is done.
func (c *Conn) Writer(ctx context.Context, kind Kind) (io.WriteCloser, error) {
	op := kind.op()
	if c.closing.Load() || c.broken.Load() {
		return nil, net.ErrClosed
	}
	if !c.writerOpen.CompareAndSwap(false, true) {
		return nil, ErrBusy
	}
	return &messageWriter{c: c, ctx: ctx, op: op}, nil
}

// messageWriter sends a message in several frames.
type messageWriter struct {
	c        *Conn
	ctx      context.Context
	op       wsframe.Op // of the next frame
	buffered []byte     // at most one frame
	closed   bool
}

// frameSize is the payload size of a Writer's frames.
const frameSize = 16 << 10

var errWriterClosed = errors.New("ws: Write after Close of a message")

func (w *messageWriter) Write(p []byte) (n int, err error) {
	if w.closed {
		return 0, errWriterClosed
	}
	for len(p) > 0 {
		if len(w.buffered) == frameSize {
			if err := w.send(0); err != nil {
				return n, err
			}
		}
		took := min(len(p), frameSize-len(w.buffered))
		w.buffered = append(w.buffered, p[:took]...)
		p = p[took:]
		n += took
	}
	return n, nil
}

// send sends the buffered bytes as a frame. If it is cancelled before anything was
// sent, the caller may try again.
func (w *messageWriter) send(flags wsframe.Flags) error {
	if err := w.c.writeFrame(w.ctx, w.op, flags, w.buffered); err != nil {
		return err
	}
	w.op, w.buffered = wsframe.OpContinuation, w.buffered[:0]
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
		w.c.broken.Store(true) // an unfinished message: nothing can follow
		w.c.nc.Close()
	}
	w.c.writerOpen.Store(false)
	return err
}
