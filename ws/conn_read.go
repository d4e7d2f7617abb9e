package ws

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"unicode/utf8"

	"github.com/spindleloop/spindle/internal/deflate"
	"github.com/spindleloop/spindle/internal/wsframe"
)

// Read reads a message. The slice is lent until the next call. It fails with a
// *CloseError when the peer has closed, with a *ProtocolError when it has broken
// the protocol or a limit, and then so does every further call.
func (c *Conn) Read(ctx context.Context) (Kind, []byte, error) {
	if !c.reading.CompareAndSwap(false, true) {
		return 0, nil, ErrBusy
	}
	kind, message, err := c.read(ctx)
	c.reading.Store(false)
	if err == nil && c.closing.Load() {
		message = bytes.Clone(message)
		c.finish()
	}
	return kind, message, err
}

func (c *Conn) read(ctx context.Context) (Kind, []byte, error) {
	if err := c.skip(ctx); err != nil {
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
		c.message = append(c.message, e.Payload...)
		if !e.Final {
			continue
		}
		message := c.message
		c.message = modest(message)
		if e.Compressed {
			message, err = c.inflate(e.Op, message)
		}
		return Kind(e.Op), message, err
	}
}

func (c *Conn) inflate(op wsframe.Op, message []byte) ([]byte, error) {
	inflated, err := deflate.Inflate(modest(c.inflated), message, c.rules.limits.Message)
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

// next is the next piece of a message. It does what other frames ask for.
func (c *Conn) next(ctx context.Context) (wsframe.Event, error) {
	for {
		if c.ended != nil {
			return wsframe.Event{}, c.ended
		}
		for c.from < c.to {
			n, e, err := c.in.Next(c.buf[c.from:c.to])
			c.from += n
			if err != nil {
				return e, c.fail(err)
			}
			switch e.Type {
			case wsframe.Data:
				if !c.closing.Load() { // else nobody is interested any more
					return e, nil
				}
			case wsframe.Ping, wsframe.Pong:
				err = c.control(ctx, e)
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

// control answers a ping, unless there are too many.
func (c *Conn) control(ctx context.Context, e wsframe.Event) error {
	if now := c.now().Unix(); now != c.second {
		c.second, c.controls = now, 0
	}
	if c.controls++; c.controls > c.rules.controls {
		return c.fail(wsframe.ErrTooManyControls)
	}
	if e.Type == wsframe.Pong || c.closing.Load() {
		return nil
	}
	if err := c.writeFrame(ctx, wsframe.OpPong, wsframe.Fin, e.Payload); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// fill reads more. All that was read before is used.
func (c *Conn) fill(ctx context.Context) error {
	if c.to == len(c.buf) && len(c.buf) < largeBuffer {
		c.buf = make([]byte, largeBuffer)
	}
	c.from, c.to = 0, 0
	wait, asked := c.rules.pingInterval, false
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if wait > 0 && !c.closing.Load() {
			c.nc.SetReadDeadline(c.now().Add(wait))
		}
		release := bind(ctx, c.nc, c.nc.SetReadDeadline)
		n, err := c.nc.Read(c.buf)
		release()
		c.to = n
		switch {
		case n > 0:
			return nil
		case err == nil: // nothing, which a net.Conn should not say
			continue
		case ctx.Err() != nil:
			return endOf(ctx, err)
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return c.end(err)
		case c.closing.Load():
			return c.end(ErrCloseTimeout)
		case asked:
			return c.end(ErrNoAnswer)
		}
		asked, wait = true, c.rules.pingTimeout
		if err := c.writeFrame(ctx, wsframe.OpPing, wsframe.Fin, nil); err != nil {
			return err
		}
	}
}

// end closes the connection, which has failed.
func (c *Conn) end(why error) error {
	if c.ended == nil {
		if why == io.EOF {
			why = io.ErrUnexpectedEOF // there was no Close
		}
		c.ended = why
	}
	c.broken.Store(true)
	c.nc.Close()
	return c.ended
}

// fail ends the connection with a peer that has broken the rules, but tells it why.
func (c *Conn) fail(why error) error {
	c.ended = why
	if e, ok := errors.AsType[*ProtocolError](why); ok {
		c.sendClose(e.Code, e.Text())
	}
	c.linger(true)
	return c.end(why)
}

// failNow is fail for who does not read at the moment.
func (c *Conn) failNow(why error) error {
	if !c.reading.CompareAndSwap(false, true) {
		return ErrBusy
	}
	defer c.reading.Store(false)
	if c.ended != nil {
		return c.ended
	}
	return c.fail(why)
}

// linger waits a moment for the peer's end, so that it can read what it was told.
func (c *Conn) linger(endWriting bool) {
	if half, ok := c.nc.(interface{ CloseWrite() error }); ok && endWriting {
		half.CloseWrite()
	}
	until := c.now().Add(lingerTime)
	c.nc.SetReadDeadline(until)
	for c.now().Before(until) { // a peer that sends without end is not waited for longer
		if _, err := c.nc.Read(c.buf); err != nil {
			return
		}
	}
}
