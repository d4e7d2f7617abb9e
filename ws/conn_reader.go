package ws

import (
	"compress/flate"
	"context"
	"errors"
	"io"

	"github.com/spindleloop/spindle/internal/wsframe"
	"github.com/spindleloop/spindle/ws/internal/deflate"
)

// Reader starts reading a message in chunks, so that it need not be in memory at
// once. Options.MessageLimit applies all the same. The next Read or Reader skips the
// unread rest of the message. Calls of the io.Reader fail when ctx is done.
func (c *Conn) Reader(ctx context.Context) (Kind, io.Reader, error) {
	if !c.reading.CompareAndSwap(false, true) {
		return 0, nil, ErrBusy
	}
	defer c.endRead()
	if err := c.skipRest(ctx); err != nil {
		return 0, nil, err
	}
	e, err := c.next(ctx)
	if err != nil {
		return 0, nil, err
	}
	r := &messageReader{c: c, ctx: ctx, chunk: e.Payload, final: e.Final}
	if len(c.message) > 0 { // the beginning, kept by a cancelled Read
		r.chunk = append(c.message, e.Payload...)
		c.message = nil
	}
	c.current = r
	if !e.Compressed {
		return Kind(e.Op), r, nil
	}
	return Kind(e.Op), &inflatingReader{raw: r, src: deflate.NewReader(r), remaining: c.rules.limits.Message, text: e.Op == wsframe.OpText}, nil
}

var errSkipped = errors.New("ws: the message was skipped by another Read")

// skipRest reads to the end of a message that its Reader has not read fully.
func (c *Conn) skipRest(ctx context.Context) error {
	r := c.current
	if r == nil {
		return nil
	}
	r.err = errSkipped
	for !r.final {
		e, err := c.next(ctx)
		if err != nil {
			return err
		}
		r.final = e.Final
	}
	c.current = nil
	return nil
}

// endRead ends a read. If Close was called meanwhile, it waits for the peer's Close.
func (c *Conn) endRead() {
	c.reading.Store(false)
	if c.closing.Load() {
		c.awaitPeerClose()
	}
}

// messageReader reads the chunks of one message.
type messageReader struct {
	c     *Conn
	ctx   context.Context
	chunk []byte
	final bool
	err   error
}

func (r *messageReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if !r.c.reading.CompareAndSwap(false, true) {
		return 0, ErrBusy
	}
	defer r.c.endRead()
	if r.err != nil {
		return 0, r.err
	}
	for len(r.chunk) == 0 {
		if r.final {
			r.err, r.c.current = io.EOF, nil
			return 0, io.EOF
		}
		e, err := r.c.next(r.ctx)
		if err != nil {
			return 0, err
		}
		r.chunk, r.final = e.Payload, e.Final
	}
	n := copy(p, r.chunk)
	r.chunk = r.chunk[n:]
	return n, nil
}

// inflatingReader inflates the chunks of one message, up to the limit.
type inflatingReader struct {
	raw       *messageReader
	src       *deflate.Reader
	remaining int
	text      bool
	seen      wsframe.Text
	err       error
}

func (r *inflatingReader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.src.Read(p)
	if r.remaining -= n; r.remaining < 0 {
		err = wsframe.ErrMessageTooLarge
	} else if r.text && (!r.seen.Add(p[:n]) || err == io.EOF && !r.seen.Complete()) {
		err = wsframe.ErrUTF8
	}
	if err == nil {
		return n, nil
	}
	r.src.Close()
	if err == io.EOF {
		// Bytes after the last block have no meaning.
		if _, err = io.Copy(io.Discard, r.raw); err == nil {
			err = io.EOF
		}
	} else if wrong := r.protocolError(err); wrong != nil {
		n, err = 0, r.raw.c.failUnlessReading(wrong)
	}
	r.err = err
	return n, err
}

// protocolError returns the peer's violation that err stands for, or nil.
func (r *inflatingReader) protocolError(err error) error {
	if _, ok := errors.AsType[flate.CorruptInputError](err); ok {
		return wsframe.ErrDeflate
	}
	if err == wsframe.ErrMessageTooLarge || err == wsframe.ErrUTF8 {
		return err
	}
	return nil
}
