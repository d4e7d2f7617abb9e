package stream

import (
	"context"
	"io"
	"os"
	"syscall"

	"github.com/spindleloop/spindle"
)

// WriteTo copies from c to w until the end of the stream. It implements io.WriterTo,
// so io.Copy uses it: a connection that waits for data needs no buffer.
func (c *Conn) WriteTo(w io.Writer) (int64, error) {
	to, sameLoop := w.(*Conn)
	sameLoop = sameLoop && to.loop() == c.loop()
	ctx := c.here()
	switch {
	case ctx != nil && sameLoop:
		return c.copyToConn(ctx, to)
	case ctx != nil:
		return c.copyToWriter(ctx, w)
	case sameLoop: // one task for the whole copy
		n, err := runInTask(c.loop(), c.nursery, "Conn.WriteTo", func(ctx context.Context) (int64, error) { return c.copyToConn(ctx, to) })
		return n, c.netError("read", err)
	}
	return io.Copy(w, justReader{c})
}

// ReadFrom copies from r to c until the end of r. It implements io.ReaderFrom, which
// io.Copy uses if r is no io.WriterTo.
func (c *Conn) ReadFrom(r io.Reader) (int64, error) {
	if from, ok := r.(*Conn); ok {
		return from.WriteTo(c)
	}
	if c.here() == nil {
		return io.Copy(justWriter{c}, r)
	}
	st := loopStateOf(c.loop())
	buf := st.getBuffer()
	defer st.putBuffer(buf)
	return io.CopyBuffer(justWriter{c}, r, buf)
}

// justReader and justWriter hide the WriteTo and ReadFrom methods from io.Copy.
type (
	justReader struct{ io.Reader }
	justWriter struct{ io.Writer }
)

// copyToWriter copies to an arbitrary writer, which may wait before it uses the
// bytes. So each Write gets a buffer of its own from the pool.
func (c *Conn) copyToWriter(ctx context.Context, w io.Writer) (n int64, err error) {
	st := loopStateOf(c.loop())
	for {
		buf, m, err := c.readPooled(ctx, st)
		if m > 0 {
			var k int
			k, err = w.Write(buf[:m])
			n += int64(k)
			if err == nil && k < m {
				err = io.ErrShortWrite
			}
		}
		st.putBuffer(buf)
		switch {
		case err == io.EOF:
			return n, nil
		case err != nil:
			return n, err
		}
	}
}

// readPooled reads into a pooled buffer, which it takes only once there is data.
func (c *Conn) readPooled(ctx context.Context, st *loopState) (buf []byte, n int, err error) {
	if err := spindle.Checkpoint(ctx); err != nil {
		return nil, 0, err
	}
	if err := c.reads.acquire(ctx, "Conn.Read"); err != nil {
		return nil, 0, err
	}
	if c.reads.expired() {
		err = os.ErrDeadlineExceeded
	}
	for err == nil {
		buf = st.getBuffer()
		if n, err = c.socket.Read(buf); err == nil {
			break
		}
		st.putBuffer(buf)
		buf = nil
		if err != syscall.EAGAIN {
			break
		}
		var w spindle.Waker
		if w, err = c.beginReadWait(ctx); err == nil {
			err = w.Park(ctx, "Conn.Read", &c.reads)
			c.socket.PauseReading()
		}
	}
	c.reads.release()
	return buf, n, c.netError("read", err)
}
