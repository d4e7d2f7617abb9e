package ws

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"math/bits"
	"net"
	"os"
	"time"
	"unicode/utf8"

	"github.com/spindleloop/spindle/internal/wsframe"
	"github.com/spindleloop/spindle/ws/internal/deflate"
)

// Read reads a message. The slice is valid until the next call. Read fails with a
// *CloseError when the peer has closed the connection, and with a *ProtocolError
// when the peer has violated the protocol or a limit. Then every further call fails
// the same way.
func (c *Conn) Read(ctx context.Context) (Kind, []byte, error) {
	if !c.reading.CompareAndSwap(false, true) {
		return 0, nil, ErrBusy
	}
	kind, message, err := c.read(ctx)
	c.reading.Store(false)
	if c.closing.Load() {
		message = bytes.Clone(message)
		c.awaitPeerClose()
	}
	return kind, message, err
}

func (c *Conn) read(ctx context.Context) (Kind, []byte, error) {
	if err := c.skipRest(ctx); err != nil {
		return 0, nil, err
	}
	for {
		e, err := c.next(ctx)
		if err != nil {
			return 0, nil, err
		}
		if e.Final && len(c.message) == 0 && !e.Compressed {
			return Kind(e.Op), e.Payload, nil
		}
		before := len(c.message)
		c.message = append(c.message, e.Payload...)
		if !e.Final {
			if e.Compressed && exceeds(c.message, before, c.rules.limits.Message) {
				return 0, nil, c.fail(wsframe.ErrMessageTooLarge)
			}
			continue
		}
		message := c.message
		c.message = reusable(message)
		if e.Compressed {
			message, err = c.inflate(e.Op, message)
		}
		return Kind(e.Op), message, err
	}
}

// exceeds reports whether the fragments of a compressed message inflate to more than limit
// bytes, so that the connection is not kept until the last one. It looks each time their
// size has about quadrupled since before.
func exceeds(fragments []byte, before, limit int) bool {
	return bits.Len(uint(len(fragments)))/2 != bits.Len(uint(before))/2 && deflate.Exceeds(fragments, limit)
}

func (c *Conn) inflate(op wsframe.Op, message []byte) ([]byte, error) {
	inflated, err := deflate.Inflate(reusable(c.inflated), message, c.rules.limits.Message)
	switch {
	case err == deflate.ErrTooLarge:
		return nil, c.fail(wsframe.ErrMessageTooLarge)
	case err != nil:
		return nil, c.fail(wsframe.ErrDeflate)
	case op == wsframe.OpText && !utf8.Valid(inflated):
		return nil, c.fail(wsframe.ErrUTF8)
	}
	c.inflated = inflated
	return inflated, nil
}

// next returns the next chunk of a message. It handles control frames.
func (c *Conn) next(ctx context.Context) (wsframe.Event, error) {
	for {
		if c.err != nil {
			return wsframe.Event{}, c.err
		}
		for c.from < c.to {
			n, e, err := c.in.Next(&c.rules.limits, c.buf[c.from:c.to])
			c.from += n
			if err != nil {
				return e, c.fail(err)
			}
			switch e.Type {
			case wsframe.Data:
				if !c.closing.Load() { // after our Close, messages are dropped
					return e, nil
				}
			case wsframe.Ping, wsframe.Pong:
				err = c.handleControl(ctx, e)
			case wsframe.Close:
				err = c.closedByPeer(e.Code, string(e.Payload))
			}
			if err != nil {
				return e, err
			}
		}
		if err := c.fill(ctx); err != nil {
			return wsframe.Event{}, err
		}
	}
}

// handleControl answers a ping, unless there are too many.
func (c *Conn) handleControl(ctx context.Context, e wsframe.Event) error {
	if now := c.now().Unix(); now != c.second {
		c.second, c.controls = now, 0
	}
	if c.controls++; c.controls > c.rules.controlLimit {
		return c.fail(wsframe.ErrTooManyControls)
	}
	if e.Type == wsframe.Pong || c.closing.Load() {
		return nil
	}
	if err := c.writeControl(ctx, wsframe.OpPong, e.Payload); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// writeControl writes a control frame on behalf of a read. It sets a deadline, so
// that a peer that does not read cannot delay the reader forever. If a write is in
// progress, its caller is responsible for the deadline.
func (c *Conn) writeControl(ctx context.Context, op wsframe.Op, payload []byte) error {
	if c.writers.Load() == 0 {
		c.setWriteDeadline(c.now().Add(c.rules.closeTimeout))
		defer c.setWriteDeadline(time.Time{})
	}
	return c.writeFrame(ctx, op, wsframe.Fin, payload)
}

// fill reads more bytes once the buffer is used up.
func (c *Conn) fill(ctx context.Context) error {
	c.resize()
	c.from, c.to = 0, 0
	wait, pinged := c.rules.pingInterval, false
	for {
		if err := ended(ctx); err != nil {
			return err
		}
		closing := c.closing.Load()
		switch {
		case closing:
			c.setReadDeadline(c.now().Add(c.rules.closeTimeout)) // Close sets its own when it is sent
		case wait > 0:
			c.setReadDeadline(c.now().Add(wait))
		}
		release := followContext(ctx, c.nc, c.setReadDeadline)
		n, err := c.nc.Read(c.buf)
		release()
		c.to = n
		switch {
		case n > 0:
			return nil
		case err == nil: // no bytes and no error, which a net.Conn should not return
			continue
		case ctx.Err() != nil:
			return contextError(ctx, err)
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return c.closeWith(err)
		case closing:
			return c.closeWith(errCloseTimeout)
		case c.closing.Load(): // since then
			continue
		case pinged:
			return c.closeWith(errNoAnswer)
		}
		pinged, wait = true, cmp.Or(c.rules.pingTimeout, wait)
		if err := c.writeControl(ctx, wsframe.OpPing, nil); err != nil {
			return err
		}
	}
}

// resize replaces a full buffer with a larger one, and a large buffer with a small
// one after several small reads.
func (c *Conn) resize() {
	if c.to > minBuffer {
		c.smallReads = 0
	}
	switch {
	case c.to == len(c.buf) && len(c.buf) < maxBuffer:
		c.buf = make([]byte, min(4*len(c.buf), maxBuffer))
	case c.to <= minBuffer && len(c.buf) > minBuffer:
		if c.smallReads++; c.smallReads > shrinkAfter {
			c.buf, c.smallReads = make([]byte, minBuffer), 0
		}
	}
}

// closeWith closes the connection after a failure. The first error is kept.
func (c *Conn) closeWith(why error) error {
	if c.err == nil {
		if why == io.EOF {
			why = io.ErrUnexpectedEOF // the connection ended without a Close
		}
		c.err = why
	}
	c.broken.Store(true)
	c.nc.Close()
	return c.err
}

// fail closes the connection because the peer has violated the protocol, after
// sending a Close with the reason.
func (c *Conn) fail(why error) error {
	c.err = why
	if e, ok := errors.AsType[*ProtocolError](why); ok {
		c.sendClose(e.Code, e.Text())
	}
	c.linger(true)
	return c.closeWith(why)
}

// failUnlessReading is fail for a caller that does not hold reading.
func (c *Conn) failUnlessReading(why error) error {
	if !c.reading.CompareAndSwap(false, true) {
		return ErrBusy
	}
	defer c.reading.Store(false)
	if c.err != nil {
		return c.err
	}
	return c.fail(why)
}

// linger waits a moment for the peer to close, so that it can read our Close.
func (c *Conn) linger(endWriting bool) {
	if half, ok := c.nc.(interface{ CloseWrite() error }); ok && endWriting {
		half.CloseWrite()
	}
	until := c.now().Add(lingerTime)
	c.nc.SetReadDeadline(until)
	for c.now().Before(until) { // bounds the wait for a peer that never stops sending
		if _, err := c.nc.Read(c.buf); err != nil {
			return
		}
	}
}
