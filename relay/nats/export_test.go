package nats

import (
	"context"
	"net"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spindleloop/spindle/relay"
)

// Decode returns the envelope of a message.
func Decode(m *nats.Msg) (*relay.Envelope, error) { return decode(m) }

// Encode makes m the message of an envelope.
func Encode(m *nats.Msg, e *relay.Envelope) error { return encode(m, e, false) }

// Queued returns how many requests are in the queue.
func Queued(s relay.Subscription) int {
	q := s.(*subscription).queue
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.len()
}

// Asleep returns how many calls of Next wait and are not being woken.
func Asleep(s relay.Subscription) int { return s.(*subscription).queue.turn.Statistics().Waiting }

// Arrived returns how many durable requests were fetched and wait for a call of Next.
func Arrived(s relay.Subscription) int { return s.(*jobs).arrived.Statistics().Used }

// Claims returns how many keys a store of replies has claimed and renews.
func Claims(r relay.Results) int {
	s := r.(*results)
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.claims)
}

// Sighted returns the revision of a key's claim that a store has seen, or 0.
func Sighted(r relay.Results, key string) uint64 {
	s := r.(*results)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[key].revision
}

// PassLease makes a store count as if it had seen the revision of a key's claim a lease ago, unless it has
// seen a later one.
func PassLease(r relay.Results, key string, revision uint64) {
	s := r.(*results)
	s.mu.Lock()
	defer s.mu.Unlock()
	if seen, ok := s.seen[key]; ok && seen.revision <= revision {
		seen.at = seen.at.Add(-s.lease)
		s.seen[key] = seen
	}
}

// KeyName returns the name of a key in the bucket.
func KeyName(key string) string { return keyName(key) }

// WrapBucket replaces the bucket of a store of replies.
func WrapBucket(r relay.Results, wrap func(jetstream.KeyValue) jetstream.KeyValue) {
	s := r.(*results)
	s.kv = wrap(s.kv)
}

// Overflow adds an envelope to the overflow, as TryPublish does in a task if the outbox is full.
func Overflow(b *Bus, e *relay.Envelope) error {
	var m nats.Msg
	if err := encode(&m, e, false); err != nil {
		return err
	}
	return b.overflow.add(&m)
}

// PingInterval is that of a bus.
const PingInterval = pingInterval

// NoticedAfter is when a server that does not answer is noticed.
const NoticedAfter = (maxPings + 1) * pingInterval

// Dial makes a connection with a Write that does not wait.
func Dial(address string) (net.Conn, error) {
	return (&dialer{latest: &atomic.Pointer[conn]{}}).Dial("tcp", address)
}

// Translated returns an error of the client of NATS as one of relay.
func Translated(err error) error { return translated(err) }

// AwaitSpace waits until a connection of Dial has space.
func AwaitSpace(c net.Conn) { c.(*conn).await() }

// Unsent returns how many bytes wait in a connection of Dial.
func Unsent(c net.Conn) int64 { return c.(*conn).unsent.Load() }

// QueueCapacity puts and takes n requests in a queue that always has one more, and returns for how
// many requests it has memory.
func QueueCapacity(n int) int {
	q := newArrivals(2)
	for range n {
		_ = q.tryPut(arrival{})
		if q.len() > 1 {
			q.pop()
		}
	}
	return cap(q.list)
}

// NextAfterAPanic makes a call of get panic while it waits, and returns how the next one ends, for
// which there is a request.
func NextAfterAPanic(ctx, panics context.Context) (err error) {
	q := newArrivals(2)
	func() {
		defer func() { _ = recover() }()
		_, _ = q.get(panics)
	}()
	_ = q.tryPut(arrival{})
	_, err = q.get(ctx)
	return err
}
