package stream

import (
	"context"
	"io"
	"syscall"

	"github.com/spindleloop/spindle"
)

// WriteTo copies to w what comes, until the end. It is what io.Copy calls: a
// connection that waits for more needs no buffer.
func (c *Conn) WriteTo(w io.Writer) (int64, error) {
	to, ours := w.(*Conn)
	ours = ours && to.loop() == c.loop()
	ctx := c.home.Here()
	switch {
	case ctx != nil && ours:
		return c.pump(ctx, to)
	case ctx != nil:
		return c.copyTo(ctx, w)
	case ours: // one task does all of it
		n, err := inTask(c.loop(), c.home, "Conn.WriteTo of a goroutine", func(ctx context.Context) (int64, error) { return c.pump(ctx, to) })
		return n, c.fault("read", err)
	}
	return io.Copy(w, justReader{c})
}

// ReadFrom writes what r has, until its end. It is what io.Copy calls where r does
// not know better.
func (c *Conn) ReadFrom(r io.Reader) (int64, error) {
	if from, ok := r.(*Conn); ok {
		return from.WriteTo(c)
	}
	if c.home.Here() == nil {
		return io.Copy(justWriter{c}, r)
	}
	st := stationOf(c.loop())
	buf := st.takeBuffer()
	defer st.giveBuffer(buf)
	return io.CopyBuffer(justWriter{c}, r, buf)
}

// justReader and justWriter have no better way to copy.
type (
	justReader struct{ io.Reader }
	justWriter struct{ io.Writer }
)

// copyTo copies to a writer of which nothing is known: it may wait before it takes
// what it is given. It has a buffer of its own for the time of each Write.
func (c *Conn) copyTo(ctx context.Context, w io.Writer) (n int64, err error) {
	st := stationOf(c.loop())
	for {
		buf, m, err := c.readLate(ctx, st)
		if m > 0 {
			var k int
			k, err = w.Write(buf[:m])
			n += int64(k)
			if err == nil && k < m {
				err = io.ErrShortWrite
			}
		}
		st.giveBuffer(buf)
		switch {
		case err == io.EOF:
			return n, nil
		case err != nil:
			return n, err
		}
	}
}

// readLate is read into a buffer that is taken when there is something to read.
func (c *Conn) readLate(ctx context.Context, st *station) (buf []byte, n int, err error) {
	if err := spindle.Checkpoint(ctx); err != nil {
		return nil, 0, err
	}
	if err := c.reads.enter(ctx, "Conn.Read"); err != nil {
		return nil, 0, err
	}
	try := func() {
		buf = st.takeBuffer()
		if n, err = c.tryRead(buf); err != nil {
			st.giveBuffer(buf)
			buf = nil
		}
	}
	try()
	for err == syscall.EAGAIN {
		if err = c.reads.begin(ctx, c.socket.ResumeReading()); err == nil {
			err = c.reads.waker.Park(ctx, "Conn.Read", &c.reads)
		}
		c.socket.PauseReading()
		if err == nil {
			try()
		}
	}
	c.reads.leave()
	return buf, n, c.fault("read", err)
}
