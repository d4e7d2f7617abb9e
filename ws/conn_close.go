package ws

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/spindleloop/spindle/internal/wsframe"
)

// Close sends a Close, waits for the peer's, and closes the connection. If somebody
// reads, it does not wait: the Read that meets the peer's Close ends the rest. A
// peer that does not answer in time (see Options.CloseTimeout) is cut off, with
// ErrCloseTimeout. NoStatus with no reason sends a Close without a code.
//
// It fails if code or reason must not be sent, and then does nothing; and with
// net.ErrClosed if there is nothing to close any more.
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
	c.nc.SetReadDeadline(c.now().Add(c.rules.closeTimeout))
	return c.finish()
}

// finish waits for the peer's Close after ours, unless somebody reads: then that
// one does.
func (c *Conn) finish() error {
	if !c.reading.CompareAndSwap(false, true) {
		return nil
	}
	defer c.reading.Store(false)
	_, err := c.next(context.Background())
	if r := c.current; r != nil {
		r.piece, r.err = nil, err
	}
	if _, ok := errors.AsType[*CloseError](err); ok {
		return nil
	}
	return c.end(err)
}

// CloseNow closes the connection without a word to the peer. Who reads or writes
// fails.
func (c *Conn) CloseNow() error {
	if c.broken.Swap(true) {
		return net.ErrClosed
	}
	return c.nc.Close()
}

// sendClose sends a Close, if none was sent.
func (c *Conn) sendClose(code Code, reason string) error {
	payload, err := wsframe.AppendClose(make([]byte, 0, wsframe.MaxControl), code, reason)
	if err != nil {
		return err
	}
	if c.closing.Swap(true) {
		return net.ErrClosed
	}
	c.nc.SetWriteDeadline(c.now().Add(c.rules.closeTimeout))
	return c.writeFrame(context.Background(), wsframe.OpClose, wsframe.Fin, payload)
}

// closedByPeer answers the peer's Close if it is not the answer itself, and closes
// the connection: the server's end first, as the protocol has it.
func (c *Conn) closedByPeer(code Code, reason string) error {
	c.ended = &CloseError{code, reason}
	c.sendClose(code, "")
	c.linger(c.rules.role == wsframe.Server)
	return c.end(io.EOF)
}
