package stream

import (
	"context"
	"io"
	"os"
	"syscall"

	"github.com/spindleloop/spindle"
)

// pipe carries bytes that the system moves from one socket to another without
// copying them to user space.
type pipe struct{ r, w int }

const (
	maxSplice       = 1 << 20  // bytes per system call
	spliceThreshold = 16 << 10 // from this size on, splicing is cheaper than copying
	maxFreePipes    = 16
)

// getPipe returns an empty pipe. Ok is false if the system has none or cannot
// splice.
func (st *loopState) getPipe() (p pipe, ok bool) {
	if st.cannotSplice {
		return p, false
	}
	if last := len(st.pipes) - 1; last >= 0 {
		p = st.pipes[last]
		st.pipes = st.pipes[:last]
		return p, true
	}
	r, w, err := st.registry.K.Native().Pipe()
	if err == syscall.ENOSYS {
		st.cannotSplice = true
	}
	return pipe{r, w}, err == nil
}

// putPipe keeps an empty pipe for reuse and closes any other.
func (st *loopState) putPipe(p pipe, empty bool) {
	if empty && len(st.pipes) < maxFreePipes {
		st.pipes = append(st.pipes, p)
		return
	}
	st.closePipe(p)
}

func (st *loopState) closePipe(p pipe) {
	native := st.registry.K.Native()
	native.Release(p.r)
	native.Release(p.w)
}

func (st *loopState) closePipes() {
	for _, p := range st.pipes {
		st.closePipe(p)
	}
	st.pipes = nil
}

// splice waits for data and moves it to another connection. It returns the number of
// bytes written. Ok is false if splicing is not possible and nothing was done.
func (c *Conn) splice(ctx context.Context, st *loopState, to *Conn) (n int, ok bool, err error) {
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
		return 0, true, c.netError("read", err)
	}
	n, err = to.spliceOut(ctx, p, in)
	st.putPipe(p, n == in)
	return n, true, to.netError("write", err)
}

// spliceIn reads into a pipe, which it takes only once there is data.
func (c *Conn) spliceIn(ctx context.Context, st *loopState) (p pipe, n int, err error) {
	if err := c.reads.acquire(ctx, "Conn.Read"); err != nil {
		return p, 0, err
	}
	try := func() {
		if c.reads.expired() {
			err = os.ErrDeadlineExceeded
			return
		}
		var ok bool
		if p, ok = st.getPipe(); !ok {
			err = syscall.EMFILE
			return
		}
		if n, err = c.socket.SpliceIn(p.w, maxSplice); err != nil {
			st.putPipe(p, true)
		}
	}
	try()
	for err == syscall.EAGAIN {
		if err = c.reads.waitReadable(ctx, &c.socket, "Conn.Read"); err == nil {
			try()
		}
	}
	c.reads.release()
	return p, n, err
}

// spliceOut writes the bytes in a pipe to the socket.
func (c *Conn) spliceOut(ctx context.Context, p pipe, size int) (n int, err error) {
	err = c.writeAll(ctx, "Conn.Write", func() (int, error) {
		m, err := c.socket.SpliceOut(p.r, size-n)
		n += m
		return size - n, err
	})
	return n, err
}

// copyToConn copies to another connection of the same loop. It reads into the loop's
// shared buffer, so only bytes that the other socket does not take at once are
// copied. When much data arrives at once, it splices.
func (c *Conn) copyToConn(ctx context.Context, to *Conn) (n int64, err error) {
	st := loopStateOf(c.loop())
	m := 0
	for err == nil {
		spliced := false
		if m >= spliceThreshold && !c.pipe && !to.pipe {
			m, spliced, err = c.splice(ctx, st, to)
		}
		if !spliced {
			if m, err = c.read(ctx, c.registry().Buf); m > 0 {
				m, err = to.write(ctx, c.registry().Buf[:m])
			}
		}
		n += int64(m)
	}
	if err == io.EOF {
		return n, nil
	}
	return n, err
}
