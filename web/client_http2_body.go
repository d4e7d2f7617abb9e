package web

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"sync"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/atclose"
)

// h2Body is the body of a response on a stream. The loop appends what is received, up to the
// window of the stream; any goroutine reads it.
type h2Body struct {
	c    *h2Call
	res  *http.Response
	stop func() bool // stops waiting for the request's context; nil if that is the task's

	mu      sync.Mutex
	buf     []byte      // received; guarded by mu
	at      int         // how much of buf was read; guarded by mu
	err     error       // of Read after buf: io.EOF if all has come; guarded by mu
	trailer http.Header // received, and not in res yet; guarded by mu
	credit  int         // bytes that were read, and not reported to the stream; guarded by mu
	busy    bool        // a Read is running; guarded by mu
	closed  bool        // by Close; guarded by mu
	aborted bool        // the request's context has ended before the body; guarded by mu

	reader *waiter // a Read that waits; loop goroutine only
}

var errTwoResponseReaders = errors.New("web: two reads of a response's body at once")

// follow aborts the body when the request's context ends, if that is not ctx.
func (b *h2Body) follow(ctx context.Context) {
	theirs := b.c.t.req.Context()
	if b.res.Body == http.NoBody || theirs == ctx || theirs.Done() == nil {
		return
	}
	b.stop = spindle.LoopOf(ctx).Internal().Kernel().AfterFunc(theirs, func() {
		b.mu.Lock()
		b.aborted = b.err != io.EOF
		aborted := b.aborted
		b.mu.Unlock()
		if aborted {
			b.c.cancelFrom(context.Cause(theirs))
		}
	})
}

// push appends data, on the loop. It reports whether the data may be read.
func (b *h2Body) push(p []byte) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.aborted {
		return false
	}
	if b.at > len(b.buf)/2 { // otherwise a reader that never catches up keeps all that it has read
		b.buf, b.at = b.buf[:copy(b.buf, b.buf[b.at:])], 0
	}
	b.buf = append(b.buf, p...)
	wakeIn(&b.reader)
	return true
}

func (b *h2Body) setTrailer(h http.Header) {
	b.mu.Lock()
	b.trailer = h
	b.mu.Unlock()
}

// fail makes Read return err after what was received, on the loop. The first error counts.
func (b *h2Body) fail(err error) {
	b.mu.Lock()
	if b.err == nil {
		b.err = err
	}
	b.mu.Unlock()
	wakeIn(&b.reader)
}

// Read reads what was received, and waits if that is nothing.
func (b *h2Body) Read(p []byte) (int, error) {
	if err := b.enter(); err != nil {
		return 0, err
	}
	n, err := b.read(p)
	b.mu.Lock()
	b.busy = false
	aborted := b.aborted && err != nil && err != io.EOF
	b.mu.Unlock()
	if aborted {
		err = ended(b.c.t.req.Context())
	}
	if err == io.EOF && b.stop != nil {
		b.stop()
	}
	return n, err
}

func (b *h2Body) enter() error {
	b.mu.Lock()
	aborted := b.aborted && !b.closed
	var err error
	switch {
	case b.closed:
		err = http.ErrBodyReadAfterClose
	case b.busy && !aborted:
		err = errTwoResponseReaders
	}
	b.busy = b.busy || err == nil && !aborted
	b.mu.Unlock()
	if aborted {
		return ended(b.c.t.req.Context())
	}
	return err
}

func (b *h2Body) read(p []byte) (int, error) {
	for {
		n, credit, err := b.take(p)
		if credit > 0 {
			b.consume(credit)
		}
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
		if err := b.c.await(&b.reader, "response body", b.ready); err != nil {
			return 0, err
		}
	}
}

// take reads without waiting. It returns how much the stream may be told that was read.
func (b *h2Body) take(p []byte) (n, credit int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, 0, http.ErrBodyReadAfterClose
	}
	n = copy(p, b.buf[b.at:])
	b.at += n
	if b.credit += n; b.credit >= creditStep && b.err == nil {
		credit, b.credit = b.credit, 0
	}
	if b.at < len(b.buf) {
		return n, credit, nil
	}
	b.buf, b.at = b.buf[:0], 0
	if n == 0 || b.err == io.EOF {
		err = b.err
	}
	if err == io.EOF && b.trailer != nil {
		if b.res.Trailer == nil {
			b.res.Trailer = make(http.Header)
		}
		maps.Copy(b.res.Trailer, b.trailer)
		b.trailer = nil
	}
	return n, credit, err
}

// ready reports whether there is something to take.
func (b *h2Body) ready() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.buf) > b.at || b.err != nil || b.closed
}

// consume lets the server send n more bytes.
func (b *h2Body) consume(n int) {
	hc := b.c.hc
	on := func() {
		hc.fc.Consume(&b.c.Stream, n)
		hc.flush()
	}
	if hc.p.l.Owns() {
		on()
	} else {
		_ = hc.p.l.Internal().Post(atclose.Drop, on)
	}
}

// Close makes later Reads fail. It resets the stream if the body has not come to its end.
func (b *h2Body) Close() error {
	b.mu.Lock()
	again := b.closed
	b.closed = true
	b.buf, b.at = nil, 0
	b.mu.Unlock()
	if again {
		return nil
	}
	if b.stop != nil {
		b.stop()
	}
	b.c.cancelFrom(http.ErrBodyReadAfterClose)
	return nil
}

func (b *h2Body) isClosed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}
