package nats

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/spindleloop/spindle/relay"
)

// listener is a registration of Listen.
type listener struct {
	b       *Bus
	sub     *nats.Subscription
	subject string // of sub
	deliver func(*relay.Envelope)
	drops   drops

	mu    sync.RWMutex // held while deliver runs
	ended bool
}

// Listen calls deliver for each envelope of a subject, on a goroutine of its own. It
// returns when the server has the registration.
func (b *Bus) Listen(ctx context.Context, subject string, deliver func(*relay.Envelope)) (io.Closer, error) {
	l := &listener{b: b, deliver: deliver, subject: subject}
	if isAddress(subject) {
		l.subject += ".>"
	}
	err := b.register(ctx, l, subject, func() (err error) {
		l.sub, err = b.nc.Subscribe(l.subject, l.receive)
		return err
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// register calls subscribe, and waits until the server knows of it.
func (b *Bus) register(ctx context.Context, s closer, subject string, subscribe func() error) error {
	if err := checkSubject(subject); err != nil {
		return err
	}
	if err := b.Ready(); err != nil {
		return err
	}
	err := blocking(ctx, func() error {
		before := b.nc.LastError()
		if err := subscribe(); err != nil {
			return err
		}
		if !b.keep(s) {
			return relay.ErrClosed
		}
		if err := b.flush(ctx); err != nil {
			return err
		}
		if err := b.nc.LastError(); err != before && isRefusal(err, s.pattern()) { // if another error hides it, refuse is called
			return denied(err)
		}
		return nil
	})
	if err != nil {
		s.Close()
	}
	return translated(err)
}

func (l *listener) receive(m *nats.Msg) {
	e, err := decode(m)
	if err != nil {
		l.b.dropped.Add(1)
		return
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if !l.ended {
		l.deliver(e)
	}
}

// Close ends the registration.
func (l *listener) Close() error {
	l.b.forget(l)
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.countDrops()
	if l.sub != nil {
		l.b.background(func() { _ = l.sub.Unsubscribe() }) // fails only without a connection, and then there is nothing to end
	}
	return nil
}

func (l *listener) countDrops() { l.drops.count(l.b, l.sub) }

func (l *listener) pattern() string { return l.subject }

// refuse does nothing: nothing waits for a listener.
func (l *listener) refuse(error) {}

// flushTimeout limits the wait for an answer of the server.
const flushTimeout = 5 * time.Second

// flush waits until the server has handled what was sent.
func (b *Bus) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	return b.nc.FlushWithContext(ctx)
}

// drops counts what the client of NATS has dropped of a subscription, because it did not fit.
// The client keeps the number, but only until the subscription ends.
type drops struct {
	mu   sync.Mutex
	seen int // counted already; guarded by mu
}

// count adds what was dropped since the last time to the counts of b.
func (d *drops) count(b *Bus, s *nats.Subscription) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := s.Dropped()
	if err != nil || n <= d.seen {
		return // it has ended, or there is nothing new
	}
	b.dropped.Add(uint64(n - d.seen))
	d.seen = n
}
