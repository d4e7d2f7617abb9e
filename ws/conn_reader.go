package ws

import (
	"compress/flate"
	"context"
	"errors"
	"io"

	"github.com/spindleloop/spindle/internal/deflate"
	"github.com/spindleloop/spindle/internal/wsframe"
)

// Reader begins to read a message that is handed over as it comes, so that it need
// not be had at once; Options.MessageLimit is its limit all the same. What is not
// read of it is skipped by the next Read or Reader. Its calls end when ctx does.
func (c *Conn) Reader(ctx context.Context) (Kind, io.Reader, error) {
	if !c.reading.CompareAndSwap(false, true) {
		return 0, nil, ErrBusy
	}
	defer c.leave()
	if err := c.skip(ctx); err != nil {
		return 0, nil, err
	}
	e, err := c.next(ctx)
	if err != nil {
		return 0, nil, err
	}
	r := &messageReader{c: c, ctx: ctx, piece: e.Payload, final: e.Final}
	if len(c.message) > 0 { // a Read that was cancelled has left it
		r.piece = append(c.message, e.Payload...)
		c.message = nil
	}
	c.current = r
	if !e.Compressed {
		return Kind(e.Op), r, nil
	}
	return Kind(e.Op), &inflatingReader{raw: r, src: deflate.NewReader(r), left: c.rules.limits.Message, text: e.Op == wsframe.OpText}, nil
}

var errSkipped = errors.New("ws: the message was skipped by another Read")

// skip reads to the end of a message that its Reader has not read.
func (c *Conn) skip(ctx context.Context) error {
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

// leave ends a turn of reading.
func (c *Conn) leave() {
	c.reading.Store(false)
	if c.closing.Load() {
		c.finish()
	}
}

// messageReader reads the pieces of one message.
type messageReader struct {
	c     *Conn
	ctx   context.Context
	piece []byte
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
	defer r.c.leave()
	if r.err != nil {
		return 0, r.err
	}
	for len(r.piece) == 0 {
		if r.final {
			r.err, r.c.current = io.EOF, nil
			return 0, io.EOF
		}
		e, err := r.c.next(r.ctx)
		if err != nil {
			return 0, err
		}
		r.piece, r.final = e.Payload, e.Final
	}
	n := copy(p, r.piece)
	r.piece = r.piece[n:]
	return n, nil
}

// inflatingReader inflates the pieces of one message, up to the limit.
type inflatingReader struct {
	raw  *messageReader
	src  *deflate.Reader
	left int
	text bool
	seen wsframe.Text
	err  error
}

func (r *inflatingReader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.src.Read(p)
	if r.left -= n; r.left < 0 {
		err = wsframe.ErrMessageTooLarge
	} else if r.text && (!r.seen.Add(p[:n]) || err == io.EOF && !r.seen.Complete()) {
		err = wsframe.ErrUTF8
	}
	if err == nil {
		return n, nil
	}
	r.src.Close()
	if err == io.EOF {
		// There may be something behind the last block, which means nothing.
		if _, err = io.Copy(io.Discard, r.raw); err == nil {
			err = io.EOF
		}
	} else if wrong := r.fault(err); wrong != nil {
		n, err = 0, r.raw.c.failNow(wrong)
	}
	r.err = err
	return n, err
}

// fault is what the peer has done wrong, if err says that it has.
func (r *inflatingReader) fault(err error) error {
	if _, ok := errors.AsType[flate.CorruptInputError](err); ok {
		return wsframe.ErrDeflate
	}
	if err == wsframe.ErrMessageTooLarge || err == wsframe.ErrUTF8 {
		return err
	}
	return nil
}
