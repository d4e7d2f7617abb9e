package ws

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/spindleloop/spindle/internal/wsframe"
)

// Close sends a Close, waits for the peer's Close, and closes the connection. If a
// read is in progress, Close does not wait: that read receives the peer's Close and
// closes the connection, even if its context is done before. If the peer does not
// answer in time (see Options.CloseTimeout), the connection is closed, and Close
// fails with an error that wraps os.ErrDeadlineExceeded.
// NoStatus with an empty reason sends a Close without a code.
//
// Close fails without any effect if code or reason must not be sent. It fails with
// net.ErrClosed if the connection is already closing.
func (c *Conn) Close(code Code, reason string) error {
	if c.broken.Load() || c.closing.Load() {
		return net.ErrClosed
	}
	if err := c.sendClose(code, reason); err != nil {
		if !errors.Is(err, wsframe.ErrSendCode) && !errors.Is(err, wsframe.ErrSendReason) {
			c.CloseNow()
		}
		return err
	}
	return c.awaitPeerClose()
}

// awaitPeerClose waits for the peer's Close after ours, unless a read is in
// progress, which does so itself. It sets the deadline in either case.
func (c *Conn) awaitPeerClose() error {
	c.reads.setLast(c.nc.SetReadDeadline, c.now().Add(c.rules.closeTimeout))
	if !c.reading.CompareAndSwap(false, true) {
		return nil
	}
	defer c.reading.Store(false)
	_, err := c.next(context.Background())
	if r := c.current; r != nil {
		r.chunk, r.err = nil, err
	}
	if _, ok := errors.AsType[*CloseError](err); ok {
		return nil
	}
	return c.closeWith(err)
}

// CloseNow closes the connection without a Close to the peer. Pending reads and
// writes fail.
func (c *Conn) CloseNow() error {
	if c.broken.Swap(true) {
		return net.ErrClosed
	}
	return c.nc.Close()
}

// sendClose sends a Close, unless one was sent before.
func (c *Conn) sendClose(code Code, reason string) error {
	payload, err := wsframe.AppendClose(make([]byte, 0, wsframe.MaxControl), code, reason)
	if err != nil {
		return err
	}
	if c.closing.Swap(true) {
		return net.ErrClosed
	}
	c.writes.setLast(c.nc.SetWriteDeadline, c.now().Add(c.rules.closeTimeout))
	return c.writeFrame(context.Background(), wsframe.OpClose, wsframe.Fin, payload)
}

// closedByPeer answers the peer's Close, unless that is itself the answer, and
// closes the connection. As the protocol says, the server closes its end first.
func (c *Conn) closedByPeer(code Code, reason string) error {
	c.err = &CloseError{code, reason}
	c.sendClose(code, "")
	c.linger(c.rules.limits.Role == wsframe.Server)
	return c.closeWith(io.EOF)
}
