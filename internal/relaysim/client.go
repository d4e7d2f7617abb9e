package relaysim

import (
	"context"
	"io"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/stream"
	"github.com/spindleloop/spindle/tracing"
)

// Bus is a client of a bus host. It connects in the background, and again when the
// connection breaks. It is for one loop.
type Bus struct {
	addr   string
	scope  *spindle.Scope
	l      *link // nil while it is not connected
	subs   []*sub
	sid    uint32
	closed bool
	flush  spindle.Lot // of Flush
}

var _ relay.Bus = (*Bus)(nil)

// sub is a listener or a member of a group.
type sub struct {
	b              *Bus
	sid            uint32
	subject, group string
	deliver        func(*relay.Envelope) // of a listener

	buffer  []*relay.Envelope // delivered, not yet returned by Next
	waiting int               // calls of Next
	credit  int               // envelopes that the host may still send
	lot     spindle.Lot       // of Next
	left    bool
}

// Connect makes a client in a task of n.
func Connect(n *spindle.Nursery, host string) *Bus {
	b := &Bus{addr: host + ":" + port}
	n.GoWith(spindle.TaskOptions{Name: "bus client"}, func(ctx context.Context) error {
		return spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			b.scope = s
			return b.run(ctx)
		})
	})
	return b
}

// run keeps the client connected until Close.
func (b *Bus) run(ctx context.Context) error {
	const least, most = 50 * time.Millisecond, time.Second
	wait := least
	for !b.closed {
		var c *stream.Conn
		err := spindle.FailAfter(ctx, silentAfter, func(ctx context.Context) (err error) {
			c, err = stream.Dial(ctx, "tcp", b.addr)
			return err
		})
		if err != nil {
			if err := spindle.Sleep(ctx, wait/2+time.Duration(spindle.Rand(ctx).Int64N(int64(wait)))); err != nil {
				return err
			}
			wait = min(2*wait, most)
			continue
		}
		wait = least
		b.l = &link{c: c, on: spindle.LoopOf(ctx)}
		for _, s := range b.subs {
			s.register()
		}
		b.l.run(ctx, b.receive)
		b.l = nil
		b.flush.Wake(1 << 30)
		if err := spindle.Checkpoint(ctx); err != nil {
			return err
		}
	}
	return nil
}

// register announces a subscription to the host.
func (s *sub) register() {
	if s.b.l == nil {
		return
	}
	o, e := listen, &relay.Envelope{Subject: s.subject}
	if s.deliver == nil {
		o, e.Headers = subscribe, map[string]string{groupHeader: s.group}
	}
	_ = s.b.l.send(message{o, s.sid, e}) // a link that breaks is made anew
	s.credit = 0
	s.demand()
}

// demand allows the host to send as many envelopes as calls of Next wait.
func (s *sub) demand() {
	for s.credit < s.waiting && s.b.l != nil && s.b.l.send(message{next, s.sid, nil}) == nil {
		s.credit++
	}
}

func (b *Bus) receive(m message) {
	if m.op == flushed {
		b.flush.Wake(1 << 30)
		return
	}
	for _, s := range b.subs {
		switch {
		case s.sid != m.sid || m.op != deliver:
		case s.deliver != nil:
			s.deliver(m.e)
			return
		default:
			s.credit--
			s.buffer = append(s.buffer, m.e)
			s.lot.Wake(1)
			return
		}
	}
	b.refuse(m.e) // it was on its way when the subscription ended
}

// refuse answers a request that this client has received but will not serve.
func (b *Bus) refuse(e *relay.Envelope) {
	if e != nil && e.Kind == relay.KindRequest && e.ReplyTo != "" {
		_ = b.TryPublish(relay.NewFailure(e, "no-responder", "the worker has left")) // or its caller times out
	}
}

// Ready reports whether there is a connection.
func (b *Bus) Ready() error {
	switch {
	case b.closed:
		return relay.ErrClosed
	case b.l == nil:
		return relay.ErrDown
	}
	return nil
}

// TryPublish sends e to the host.
func (b *Bus) TryPublish(e *relay.Envelope) error {
	if err := b.Ready(); err != nil {
		return err
	}
	if len(e.Body) > maxBody {
		return relay.ErrTooLarge
	}
	if err := relay.CheckSubject(e.Subject); err != nil {
		return err
	}
	return b.l.send(message{publish, 0, e})
}

// Publish sends e to the host. While too much is unsent, it waits.
func (b *Bus) Publish(ctx context.Context, e *relay.Envelope) error {
	if e.Kind == relay.KindRequest && e.Trace == (tracing.Context{}) {
		traced := *e
		traced.Trace = tracing.Of(ctx)
		e = &traced
	}
	for {
		if err := b.TryPublish(e); err != relay.ErrFull {
			return err
		}
		if err := spindle.Sleep(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

// Flush waits until the host has everything that was published, or the connection is lost.
func (b *Bus) Flush(ctx context.Context) error {
	if b.l == nil || b.l.send(message{op: flush}) != nil {
		return nil
	}
	return b.flush.Wait(ctx, "relay: Flush")
}

// Listen registers deliver for a subject.
func (b *Bus) Listen(ctx context.Context, subject string, deliver func(*relay.Envelope)) (io.Closer, error) {
	s := &sub{subject: subject, deliver: deliver}
	return s, b.add(s)
}

// Subscribe joins a queue group.
func (b *Bus) Subscribe(ctx context.Context, subject, group string) (relay.Subscription, error) {
	s := &sub{subject: subject, group: group}
	return s, b.add(s)
}

func (b *Bus) add(s *sub) error {
	if b.closed {
		return relay.ErrClosed
	}
	if err := relay.CheckSubject(s.subject); err != nil {
		return err
	}
	b.sid++
	s.b, s.sid = b, b.sid
	b.subs = append(b.subs, s)
	s.register()
	return nil
}

// Next waits for an envelope.
func (s *sub) Next(ctx context.Context) (relay.Delivery, error) {
	s.waiting++
	defer func() { s.waiting-- }()
	for {
		if err := spindle.Checkpoint(ctx); err != nil {
			return relay.Delivery{}, err
		}
		switch {
		case s.left:
			return relay.Delivery{}, relay.ErrClosed
		case len(s.buffer) > 0:
			e := s.buffer[0]
			s.buffer = s.buffer[1:]
			return relay.Delivery{Envelope: e}, nil
		}
		s.demand()
		if err := s.lot.Wait(ctx, "relay: Next"); err != nil {
			return relay.Delivery{}, err
		}
	}
}

// Close ends the subscription.
func (s *sub) Close() error {
	if s.left {
		return nil
	}
	s.left = true
	for i, o := range s.b.subs {
		if o == s {
			s.b.subs = append(s.b.subs[:i:i], s.b.subs[i+1:]...)
			break
		}
	}
	if s.b.l != nil {
		_ = s.b.l.send(message{unsubscribe, s.sid, nil})
	}
	for _, e := range s.buffer {
		s.b.refuse(e)
	}
	s.lot.Wake(1 << 30)
	return nil
}

// Close ends the client.
func (b *Bus) Close() error {
	b.closed = true
	for len(b.subs) > 0 {
		b.subs[0].Close()
	}
	if b.scope != nil {
		b.scope.Cancel(nil)
	}
	return nil
}
