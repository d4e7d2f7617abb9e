package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/internal/probe"
	"github.com/spindleloop/spindle/relay"
)

// fetchTime is how long one request to JetStream for messages waits.
const fetchTime = 5 * time.Second

// jobs is a membership in the queue group of a durable subject. It fetches a message only
// when Next waits for one: a message that waits here would be kept from other members.
type jobs struct {
	b        *Bus
	d        *Durable
	subject  string
	group    string
	consumer jetstream.Consumer // used by fetch
	arrived  *cosync.Inbox[job]
	wanted   atomic.Int64  // calls of Next that wait, less what has been fetched for them
	grown    chan struct{} // has a value when wanted has grown
	stopped  context.Context
	stop     context.CancelFunc
	closed   atomic.Bool
	ahead    atomic.Int64 // how much the clock of the server is ahead of this machine's

	mu   sync.Mutex
	open map[jetstream.Msg]struct{} // not settled; guarded by mu
}

// job is a request that has been fetched.
type job struct {
	m jetstream.Msg
	e *relay.Envelope
}

// consume joins the queue group of a durable subject.
func (b *Bus) consume(ctx context.Context, d *Durable, subject, group string) (relay.Subscription, error) {
	s := &jobs{
		b: b, d: d, subject: subject, group: group, arrived: cosync.NewInbox[job](1024), grown: make(chan struct{}, 1),
		open: map[jetstream.Msg]struct{}{},
	}
	s.stopped, s.stop = context.WithCancel(context.Background())
	err := b.register(ctx, s, subject, func() error {
		ctx, cancel := context.WithTimeout(ctx, provisionTimeout)
		defer cancel()
		return s.join(ctx)
	})
	if err != nil {
		err = cmp.Or(ended(ctx), err)
		return nil, fmt.Errorf("relay/nats: consumer of %s: %w", subject, err)
	}
	probe.AddMetered(s)
	b.background(s.fetch)
	b.background(s.keepOpen)
	return s, nil
}

// join makes the consumer, or finds the one that is there.
func (s *jobs) join(ctx context.Context) error {
	began := time.Now()
	c, err := s.b.js.CreateOrUpdateConsumer(ctx, s.d.Stream, jetstream.ConsumerConfig{
		Durable: consumerName(s.subject, s.group), FilterSubject: s.subject,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: s.d.AckWait, MaxAckPending: -1,
	})
	if err == nil {
		s.consumer = c
		s.ahead.Store(int64(c.CachedInfo().TimeStamp.Sub(began.Add(time.Since(began) / 2))))
	}
	return err
}

// rejoin makes the consumer again if it was deleted, and the stream if that was.
func (s *jobs) rejoin() error {
	ctx, cancel := context.WithTimeout(s.stopped, provisionTimeout)
	defer cancel()
	before := s.consumer.CachedInfo().Created
	err := s.join(ctx)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if err = s.b.createStream(ctx, s.d); err == nil {
			err = s.join(ctx)
		}
	}
	if err != nil || s.consumer.CachedInfo().Created.Equal(before) {
		return err
	}
	s.mu.Lock()
	clear(s.open) // in the new stream their numbers are those of other requests
	s.mu.Unlock()
	s.b.log().Warn("relay/nats: the consumer of a durable subject was deleted, and is made again", "subject", s.subject, "stream", s.d.Stream)
	return nil
}

// isGone reports whether an error of a fetch may be that of a consumer that was deleted.
func isGone(err error) bool {
	return errors.Is(err, jetstream.ErrConsumerDeleted) || errors.Is(err, jetstream.ErrConsumerNotFound) ||
		errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, nats.ErrNoResponders)
}

// Next waits for a request.
func (s *jobs) Next(ctx context.Context) (relay.Delivery, error) {
	if s.closed.Load() {
		return relay.Delivery{}, relay.ErrClosed
	}
	s.wanted.Add(1)
	select {
	case s.grown <- struct{}{}:
	default:
	}
	j, err := s.arrived.Get(ctx)
	if err != nil {
		s.wanted.Add(-1)
	}
	if errors.Is(err, cosync.ErrClosed) {
		return relay.Delivery{}, relay.ErrClosed
	} else if err != nil {
		return relay.Delivery{}, err
	}
	return relay.Delivery{Envelope: j.e, Settle: func(o relay.Outcome) { s.settle(j, o) }}, nil
}

// fetch gets as many messages as calls of Next wait for, until Close. What is left then
// goes back.
func (s *jobs) fetch() {
	defer func() {
		s.arrived.Close()
		for j, err := s.arrived.TryGet(); err == nil; j, err = s.arrived.TryGet() {
			s.mu.Lock()
			delete(s.open, j.m)
			s.mu.Unlock()
			_ = j.m.Nak() // here: a bus that closes starts nothing more, but waits for fetch
		}
	}()
	for s.stopped.Err() == nil {
		n := int(s.wanted.Load())
		if n <= 0 {
			select {
			case <-s.grown:
			case <-s.stopped.Done():
			}
			continue
		}
		ctx, cancel := context.WithTimeout(s.stopped, fetchTime)
		batch, err := s.consumer.Fetch(n, jetstream.FetchContext(ctx))
		if err == nil {
			for m := range batch.Messages() {
				s.receive(m)
			}
			err = batch.Error()
		}
		if isGone(err) && s.b.nc.IsConnected() {
			err = s.rejoin()
		}
		if err != nil && ctx.Err() == nil { // no connection, or no leader of the stream
			select {
			case <-time.After(100 * time.Millisecond):
			case <-s.stopped.Done():
			}
		}
		cancel()
	}
}

// receive passes a message to a call of Next.
func (s *jobs) receive(m jetstream.Msg) {
	meta, err := m.Metadata()
	var e *relay.Envelope
	if err == nil {
		e, err = decode(&nats.Msg{Subject: m.Subject(), Header: m.Headers(), Data: m.Data()})
	}
	if err != nil {
		s.b.dropped.Add(1)
		s.conclude(m, func() error { return m.TermWithReason("not an envelope") })
		return
	}
	e.Attempt = uint32(meta.NumDelivered)
	if e.ReplyTo == "" {
		e.ID = meta.Sequence.Stream // for CancelJob
	}
	if wait, delayed := delayOf(e, meta); wait > 0 {
		s.conclude(m, func() error { return m.NakWithDelay(wait) })
		return
	} else if delayed {
		e.Attempt = max(1, e.Attempt-1) // the first delivery was put off
	}
	s.age(e, meta.Timestamp)
	if e.Attempt > uint32(s.d.Attempts) { // workers died with it
		s.giveUp(m, e, "its workers were gone")
		return
	}
	s.mu.Lock()
	s.open[m] = struct{}{}
	s.mu.Unlock()
	s.wanted.Add(-1) // before Next returns: nothing is fetched for a call that has a request
	if s.arrived.TryPut(job{m, e}) != nil {
		s.wanted.Add(1)
		s.conclude(m, m.Nak)
	}
}

// age subtracts the time since a request was stored from its deadline. Times of the server are
// compared with its own clock only. A deadline that has passed is negative.
func (s *jobs) age(e *relay.Envelope, stored time.Time) {
	if e.Deadline == 0 {
		return
	}
	age := time.Now().Add(time.Duration(s.ahead.Load())).Sub(stored)
	if e.Deadline -= max(age, 0); e.Deadline <= 0 {
		e.Deadline = -1
	}
}

// settle tells JetStream what became of a request, unless its stream was deleted.
func (s *jobs) settle(j job, o relay.Outcome) {
	s.mu.Lock()
	_, open := s.open[j.m]
	s.mu.Unlock()
	if !open {
		return
	}
	attempt := int(j.e.Attempt)
	switch {
	case !o.Again && o.Err != nil && s.d.DeadLetter != "" && j.e.Subject != s.d.DeadLetter:
		s.bury(j.m, j.e, o.Err.Error())
	case !o.Again:
		s.conclude(j.m, func() error {
			ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
			defer cancel()
			return j.m.DoubleAck(ctx)
		})
	case attempt >= s.d.Attempts:
		s.giveUp(j.m, j.e, "its handler failed")
	default:
		wait := cmp.Or(o.After, s.d.Backoff[min(attempt, len(s.d.Backoff))-1])
		s.conclude(j.m, func() error { return j.m.NakWithDelay(wait) })
	}
}

// worksOn reports whether another delivery of the same request is not settled.
func (s *jobs) worksOn(m jetstream.Msg) bool {
	meta, err := m.Metadata()
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for other := range s.open {
		if o, err := other.Metadata(); other != m && err == nil && o.Sequence.Stream == meta.Sequence.Stream {
			return true
		}
	}
	return false
}

// conclude sends the last message about m on a goroutine, because that may block. If it is
// lost, m is delivered again.
func (s *jobs) conclude(m jetstream.Msg, tell func() error) {
	s.mu.Lock()
	delete(s.open, m)
	s.mu.Unlock()
	s.b.background(func() { _ = tell() })
}

// keepOpen tells JetStream that requests are worked on, until they are settled. Handlers
// may take longer than the subscription lasts.
func (s *jobs) keepOpen() {
	tick := time.NewTicker(max(s.d.AckWait/3, time.Millisecond))
	defer tick.Stop()
	stopped := s.stopped.Done()
	for {
		select {
		case <-s.b.stopping:
			return
		case <-stopped:
			stopped = nil
		case <-tick.C:
		}
		s.mu.Lock()
		all := slices.Collect(maps.Keys(s.open))
		s.mu.Unlock()
		if len(all) == 0 && stopped == nil {
			return
		}
		for _, m := range all {
			_ = m.InProgress() // one that was settled meanwhile is not known any more
		}
	}
}

// Close leaves the group. Requests that Next has not returned go to other members.
func (s *jobs) Close() error {
	if !s.closed.Swap(true) {
		probe.RemoveMetered(s)
		s.b.forget(s)
		s.stop()
	}
	return nil
}

// countDrops does nothing: what is fetched has a call of Next that waits for it.
func (s *jobs) countDrops() {}

func (s *jobs) pattern() string { return "" }
func (s *jobs) refuse(error)    {}
