package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/tracing"
)

// Publish sends e, and waits while the outbox is full. For a durable subject it waits
// until the server has stored e. If ctx ends first, it fails with the error of ctx, and e may
// or may not be stored.
func (b *Bus) Publish(ctx context.Context, e *relay.Envelope) error {
	if e.Kind == relay.KindRequest && e.Trace == (tracing.Context{}) {
		traced := *e
		traced.Trace = tracing.Of(ctx)
		e = &traced
	}
	if b.stores(e) {
		m, err := b.message(e, true)
		if err != nil {
			return err
		}
		err = blocking(ctx, func() error { return b.store(ctx, m) })
		if err != nil {
			err = cmp.Or(ended(ctx), err)
		}
		return err
	}
	if b.writes() {
		return b.write(e)
	}
	m, err := b.message(e, false)
	if err != nil {
		return err
	}
	b.handing.Add(1)
	return b.handed(b.outbox.Put(ctx, m))
}

// writes reports whether the caller may pass an envelope to the client of NATS: it is not on a
// loop, or publishing does not wait. Outside of a loop it waits until the connection has space.
func (b *Bus) writes() bool {
	if loop.Internal().Current() != nil {
		return b.isDirect()
	}
	if c := b.conn.Load(); c != nil {
		c.await()
	}
	return true
}

// ended returns the error of ctx if it has ended. In a task it is the error of a wait, so that
// scopes recognize it.
func ended(ctx context.Context) error {
	if spindle.Current(ctx) == nil {
		return context.Cause(ctx)
	}
	return spindle.Checkpoint(ctx)
}

// TryPublish sends e, or fails with relay.ErrFull. For a durable subject it fails with
// cosync.ErrWouldBlock.
func (b *Bus) TryPublish(e *relay.Envelope) error {
	stored := b.stores(e)
	if !stored && b.writes() {
		return b.write(e)
	}
	m, err := b.message(e, stored)
	if err != nil {
		return err
	}
	if stored {
		return cosync.ErrWouldBlock
	}
	b.handing.Add(1)
	err = b.outbox.TryPut(m)
	if errors.Is(err, cosync.ErrWouldBlock) && e.Kind == relay.KindCancel {
		err = b.overflow.add(m)
		_ = b.outbox.TryPut(nil) // wakes send, if it has emptied the outbox since
	}
	return b.handed(err)
}

// message checks that the bus can send, and encodes e.
func (b *Bus) message(e *relay.Envelope, stored bool) (*nats.Msg, error) {
	m := new(nats.Msg)
	return m, b.encode(m, e, stored)
}

func (b *Bus) encode(m *nats.Msg, e *relay.Envelope, stored bool) error {
	if err := b.Ready(); err != nil {
		return err
	}
	if err := encode(m, e, stored); err != nil {
		return err
	}
	if int64(m.Size()-len(m.Subject)-len(m.Reply)) > b.largest.Load() {
		return relay.ErrTooLarge
	}
	return nil
}

// write passes e to the client of NATS, which may block.
func (b *Bus) write(e *relay.Envelope) error {
	var m nats.Msg
	if err := b.encode(&m, e, false); err != nil {
		return err
	}
	if err := b.nc.PublishMsg(&m); err != nil {
		return translated(err)
	}
	b.published.Add(1)
	return nil
}

// handed translates the error of the outbox.
func (b *Bus) handed(err error) error {
	switch {
	case err == nil:
		b.published.Add(1)
		return nil
	}
	b.handing.Add(-1)
	switch {
	case errors.Is(err, cosync.ErrWouldBlock):
		return relay.ErrFull
	case errors.Is(err, cosync.ErrClosed):
		return relay.ErrClosed
	}
	return err
}

// send passes messages from the outbox and the overflow to the client of NATS.
func (b *Bus) send() {
	for {
		m, err := b.outbox.Get(context.Background())
		if err != nil {
			break // closed
		}
		if m != nil {
			b.pass(m)
		}
		for _, m := range b.overflow.take() {
			b.pass(m)
		}
	}
	for _, m := range b.overflow.close() { // added since the outbox was empty
		b.pass(m)
	}
}

// pass passes a message to the client of NATS.
func (b *Bus) pass(m *nats.Msg) {
	defer b.handing.Add(-1)
	if c := b.conn.Load(); c != nil {
		c.await()
	}
	if err := b.nc.PublishMsg(m); err != nil {
		b.dropped.Add(1) // the connection was lost; a call ends with its deadline
	}
}

// translated returns an error of the client of NATS as one of relay.
func translated(err error) error {
	switch {
	case errors.Is(err, nats.ErrConnectionClosed):
		return relay.ErrClosed
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: %w", relay.ErrTooLarge, err)
	case errors.Is(err, nats.ErrTimeout), errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrNoServers),
		errors.Is(err, nats.ErrDisconnected), errors.Is(err, nats.ErrStaleConnection), errors.Is(err, nats.ErrConnectionReconnecting):
		return fmt.Errorf("%w: %w", relay.ErrDown, err)
	}
	return err
}

// overflow has cancellations that did not fit into the outbox. When the scope of many calls
// ends, their cancellations come all at once, and none can wait.
type overflow struct {
	mu     sync.Mutex
	all    []*nats.Msg // guarded by mu, as all below
	closed bool
}

const mostOverflow = 1 << 16

// add fails as TryPut of the outbox does: with cosync.ErrWouldBlock if there is no more space,
// and with cosync.ErrClosed.
func (o *overflow) add(m *nats.Msg) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed:
		return cosync.ErrClosed
	case len(o.all) == mostOverflow:
		return cosync.ErrWouldBlock
	}
	o.all = append(o.all, m)
	return nil
}

// take removes and returns all of them.
func (o *overflow) take() []*nats.Msg {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.all
	o.all = nil
	return all
}

// close makes add fail, and returns what take would.
func (o *overflow) close() []*nats.Msg {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	return o.take()
}

func (o *overflow) len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.all)
}
