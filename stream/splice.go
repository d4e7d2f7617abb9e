package stream

import (
	"context"
	"io"
	"os"
	"syscall"

	"github.com/spindleloop/spindle"
)

// pipe is what bytes go through that are moved from one socket to another without
// being copied.
type pipe struct{ r, w int }

const (
	mostSpliced = 1 << 20  // at once
	manyBytes   = 16 << 10 // from here on, moving is cheaper than copying
	keepPipes   = 16
)

// takePipe is an empty pipe; not ok if the system has none, or cannot splice.
func (st *station) takePipe() (p pipe, ok bool) {
	if st.cannotSplice {
		return p, false
	}
	if last := len(st.pipes) - 1; last >= 0 {
		p = st.pipes[last]
		st.pipes = st.pipes[:last]
		return p, true
	}
	r, w, err := st.hub.K.Native().Pipe()
	if err == syscall.ENOSYS {
		st.cannotSplice = true
	}
	return pipe{r, w}, err == nil
}

// givePipe takes a pipe back, if it is empty.
func (st *station) givePipe(p pipe, empty bool) {
	if empty && len(st.pipes) < keepPipes {
		st.pipes = append(st.pipes, p)
		return
	}
	st.closePipe(p)
}

func (st *station) closePipe(p pipe) {
	native := st.hub.K.Native()
	native.Release(p.r)
	native.Release(p.w)
}

func (st *station) closePipes() {
	for _, p := range st.pipes {
		st.closePipe(p)
	}
	st.pipes = nil
}

// splice moves what has come to another connection, waiting for some. It tells how
// much went out; not ok if nothing was done, because it cannot be.
func (c *Conn) splice(ctx context.Context, st *station, to *Conn) (n int, ok bool, err error) {
	if err := spindle.Checkpoint(ctx); err != nil {
		return 0, true, err
	}
	p, in, err := c.spliceIn(ctx, st)
	switch {
	case err == syscall.ENOSYS || err == syscall.EINVAL:
		st.cannotSplice = true
		return 0, false, nil
	case err == syscall.EMFILE || err == syscall.ENFILE:
		return 0, false, nil
	case err != nil:
		return 0, true, c.fault("read", err)
	}
	n, err = to.spliceOut(ctx, p, in)
	st.givePipe(p, n == in)
	return n, true, to.fault("write", err)
}

// spliceIn is read into a pipe that is taken when there is something to read.
func (c *Conn) spliceIn(ctx context.Context, st *station) (p pipe, n int, err error) {
	if err := c.reads.enter(ctx, "Conn.Read"); err != nil {
		return p, 0, err
	}
	try := func() {
		if c.reads.expired() {
			err = os.ErrDeadlineExceeded
			return
		}
		var ok bool
		if p, ok = st.takePipe(); !ok {
			err = syscall.EMFILE
			return
		}
		if n, err = c.socket.SpliceIn(p.w, mostSpliced); err != nil {
			st.givePipe(p, true)
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
	return p, n, err
}

// spliceOut is write of what is in a pipe.
func (c *Conn) spliceOut(ctx context.Context, p pipe, size int) (n int, err error) {
	if err := c.writes.enter(ctx, "Conn.Write"); err != nil {
		return 0, err
	}
	waited := false
	for {
		m := 0
		if c.writes.expired() {
			err = os.ErrDeadlineExceeded
		} else {
			m, err = c.socket.SpliceOut(p.r, size-n)
		}
		if n += m; n == size || err != nil {
			break
		}
		if c.socket.Writable() {
			continue
		}
		waited = true
		if err = c.writes.begin(ctx, nil); err == nil {
			err = c.writes.waker.Park(ctx, "Conn.Write", &c.writes)
		}
		if err != nil {
			break
		}
	}
	if waited {
		if e := c.socket.UnwatchWritable(); err == nil {
			err = e
		}
	}
	c.writes.leave()
	return n, err
}

// pump copies to another connection of the loop. What was read is in the memory
// that all share, and only what the other does not take at once is copied. Where
// much comes at once, the bytes do not even leave the system.
func (c *Conn) pump(ctx context.Context, to *Conn) (n int64, err error) {
	st := stationOf(c.loop())
	m := 0
	for err == nil {
		spliced := false
		if m >= manyBytes && !c.pipe && !to.pipe {
			m, spliced, err = c.splice(ctx, st, to)
		}
		if !spliced {
			if m, err = c.read(ctx, c.hub().Buf); m > 0 {
				m, err = to.write(ctx, c.hub().Buf[:m])
			}
		}
		n += int64(m)
	}
	if err == io.EOF {
		return n, nil
	}
	return n, err
}
