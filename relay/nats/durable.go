package nats

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spindleloop/spindle/relay"
)

// Durable describes subjects with requests that a work queue of JetStream keeps. A
// request is removed when a worker has dealt with it. Workers of one subject must be in one
// queue group.
//
// A request may be delivered more than once: when a worker dies, when a handler fails with
// relay.ErrRetry, or when an acknowledgement is lost. Handlers with effects need
// idempotency keys. A request is not delivered again when its handler panics, or fails with
// another error.
//
// All programs that use a durable subject must have it in their Options: a message does not
// show whether its subject is durable. A Caller without it gets JetStream's acknowledgement
// as its reply, {"stream":"SPINDLE","seq":1} for example. A worker without it handles requests
// that stay stored, and are delivered again to workers that have it.
type Durable struct {
	// Stream is the name of the stream. If there is none, it is created. Otherwise Subjects
	// are added to those that it has, so that programs with different subjects can share
	// it. Subjects are not removed. The other settings of the stream become those of the
	// program that has connected last. "" means "SPINDLE".
	Stream string

	// Subjects are subjects, or patterns in the manner of NATS: "jobs.*", "jobs.>".
	Subjects []string

	// Replicas is how many servers of a cluster keep each request. Zero means 1.
	Replicas int

	// MaxRequests is how many requests the stream keeps. Publish fails with relay.ErrFull
	// at the limit. Zero means 1,000,000.
	MaxRequests int64

	// Attempts is how often a request is delivered before it is given up. Then it is counted
	// in Stats.Dead of the worker's bus, and logged to its Options.ErrorLog. Zero means 5.
	Attempts int

	// Backoff is the wait before each further attempt; the last one is used for the rest.
	// None means 1 s, 5 s, 30 s.
	Backoff []time.Duration

	// DeadLetter is a subject for requests that are given up, and for those that fail and have
	// no caller. It becomes one of Subjects. A worker of it gets them with the headers
	// Relay-Dead-Subject, their subject before, and Relay-Dead-Reason. Publishing one
	// to that subject tries it again. "" means that they are deleted.
	DeadLetter string

	// Every has subjects with a job that is published periodically, in each period at a
	// multiple of the period since the beginning of Unix time. Several programs may have the
	// same: the server stores one job for each period, if their clocks differ by less than
	// Dedupe. The IdempotencyKey of the job has its time. Periods while no program runs
	// are left out.
	Every map[string]time.Duration

	// AckWait is how long a worker may be silent before its request goes to another one.
	// Workers that run keep their requests, however long they take. Zero means 30 s.
	AckWait time.Duration

	// Dedupe is how long the server remembers idempotency keys: a request without a
	// ReplyTo that is published again with the same key in that time is stored once.
	// Calls are stored each time, because each needs its reply: give their workers
	// Results. Zero means 2 minutes.
	Dedupe time.Duration
}

func (d *Durable) setDefaults() {
	if d.Stream == "" {
		d.Stream = "SPINDLE"
	}
	if d.MaxRequests == 0 {
		d.MaxRequests = 1_000_000
	}
	if d.DeadLetter != "" && !slices.ContainsFunc(d.Subjects, func(p string) bool { return matches(p, d.DeadLetter) }) {
		d.Subjects = append(slices.Clone(d.Subjects), d.DeadLetter)
	}
	for subject, every := range d.Every {
		if every <= 0 {
			panic("relay/nats: Durable.Every with a period that is not positive")
		}
		if !slices.ContainsFunc(d.Subjects, func(p string) bool { return matches(p, subject) }) {
			panic("relay/nats: Durable.Every has a subject that is not in Subjects: " + subject)
		}
	}
	if d.Attempts == 0 {
		d.Attempts = 5
	}
	if len(d.Backoff) == 0 {
		d.Backoff = []time.Duration{time.Second, 5 * time.Second, 30 * time.Second}
	}
	if d.AckWait == 0 {
		d.AckWait = 30 * time.Second
	}
	if d.Dedupe == 0 {
		d.Dedupe = 2 * time.Minute
	}
}

// createStreams makes the streams of all durable subjects.
func (b *Bus) createStreams(ctx context.Context) error {
	for i := range b.o.Durable {
		d := &b.o.Durable[i]
		err := provision(ctx, func(ctx context.Context) error { return b.createStream(ctx, d) })
		if err != nil {
			return fmt.Errorf("relay/nats: stream %s: %w", d.Stream, unprovided(err))
		}
	}
	return nil
}

// createStream makes a stream, or adds its subjects to one that is there.
func (b *Bus) createStream(ctx context.Context, d *Durable) error {
	config := jetstream.StreamConfig{
		Name: d.Stream, Subjects: union(nil, d.Subjects), Replicas: d.Replicas, MaxMsgs: d.MaxRequests, Duplicates: d.Dedupe,
		Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew,
	}
	_, err := b.js.CreateStream(ctx, config)
	if !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return err
	}
	// A program that does the same at this time may replace these subjects. Then store adds
	// them again.
	s, err := b.js.Stream(ctx, d.Stream)
	if err != nil {
		return err
	}
	config.Subjects = union(s.CachedInfo().Config.Subjects, d.Subjects)
	_, err = b.js.UpdateStream(ctx, config)
	return err
}

// union returns the patterns of a and b, without those that another one includes: a stream
// must not have them.
func union(a, b []string) (all []string) {
	for _, p := range slices.Concat(a, b) {
		if slices.ContainsFunc(all, func(q string) bool { return matches(q, p) }) {
			continue
		}
		all = slices.DeleteFunc(all, func(q string) bool { return matches(p, q) })
		all = append(all, p)
	}
	return all
}

// createStreamsLater makes the streams when a server can be reached. Until then the bus is
// not ready.
func (b *Bus) createStreamsLater() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-b.stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	for n := 1; ; n++ {
		select {
		case <-time.After(reconnectDelay(n)):
		case <-b.stopping:
			return
		}
		if !b.nc.IsConnected() {
			n = 0 // the client waits between its attempts
			continue
		}
		err := b.createStreams(ctx)
		b.hasStreams(err)
		if err == nil {
			return
		}
	}
}

// Error codes of JetStream for a cluster that has just started or lost its leader.
const (
	noPeers   jetstream.ErrorCode = 10005
	noCluster jetstream.ErrorCode = 10008
	noLeader  jetstream.ErrorCode = 10009
)

// provisionTimeout limits how long the servers take to make a stream, a bucket or a consumer. In a cluster
// they elect a leader for it.
const provisionTimeout = 30 * time.Second

// provision calls fn, which makes a stream or a bucket, again while the cluster is not ready
// for it.
func provision(ctx context.Context, fn func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, provisionTimeout)
	defer cancel()
	for {
		err := fn(ctx)
		if !isElecting(err) {
			return err
		}
		if pause(ctx, 50*time.Millisecond) != nil {
			return err
		}
	}
}

// isElecting reports whether an error is that of a cluster that is not ready yet.
func isElecting(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == noPeers || api.ErrorCode == noCluster || api.ErrorCode == noLeader)
}

// unprovided translates an error of provision.
func unprovided(err error) error {
	if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrJetStreamNotEnabled) {
		return fmt.Errorf("the server has no JetStream: %w", err)
	}
	return translated(err)
}

// durable returns the description of a durable subject, or nil.
func (b *Bus) durable(subject string) *Durable {
	for i := range b.o.Durable {
		for _, pattern := range b.o.Durable[i].Subjects {
			if matches(pattern, subject) {
				return &b.o.Durable[i]
			}
		}
	}
	return nil
}

// stores reports whether e is kept by JetStream.
func (b *Bus) stores(e *relay.Envelope) bool {
	return e.Kind == relay.KindRequest && b.durable(e.Subject) != nil
}

// matches reports whether a subject, or all that another pattern stands for, matches a pattern
// of NATS.
func matches(pattern, subject string) bool {
	for {
		p, restOfPattern, morePattern := strings.Cut(pattern, ".")
		s, rest, more := strings.Cut(subject, ".")
		switch {
		case p == ">":
			return true
		case p != "*" && p != s, s == ">", more != morePattern:
			return false
		case !more:
			return true
		}
		pattern, subject = restOfPattern, rest
	}
}

// store publishes a request to a durable subject, and waits until the server has stored it.
func (b *Bus) store(ctx context.Context, m *nats.Msg) error {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	var options []jetstream.PublishOpt
	if key := m.Header.Get(relay.IdempotencyKey); key != "" && m.Header.Get(deadSubject) == "" {
		id := m.Subject + " " + key
		if call := m.Header.Get(relayHeader); strings.Count(call, " ") == 5 {
			id += " " + call // a call that is made again needs a reply of its own
		}
		options = append(options, jetstream.WithMsgID(id))
	}
	_, err := b.js.PublishMsg(ctx, m, options...)
	d := b.durable(m.Subject)
	if errors.Is(err, jetstream.ErrNoStreamResponse) && b.nc.IsConnected() {
		// The stream was deleted, or has other subjects now, or has no leader.
		if err = b.createStream(ctx, d); err == nil {
			_, err = b.js.PublishMsg(ctx, m, options...)
		}
	}
	var api *jetstream.APIError
	switch {
	case err == nil:
		b.published.Add(1)
		return nil
	case errors.As(err, &api) && strings.Contains(api.Description, "maximum messages exceeded"):
		return relay.ErrFull
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders), errors.Is(err, context.DeadlineExceeded), isElecting(err):
		return fmt.Errorf("relay/nats: stream %s may not have stored the request of %s: %w: %w", d.Stream, m.Subject, relay.ErrDown, err)
	case errors.As(err, &api):
		return fmt.Errorf("relay/nats: stream %s cannot store the request of %s: %w", d.Stream, m.Subject, err)
	}
	return translated(err)
}

// consumerName returns a name for the members of a group of a subject, which JetStream
// allows.
func consumerName(subject, group string) string {
	allowed := func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '_'
	}
	sum := crc32.ChecksumIEEE([]byte(subject + " " + group))
	return fmt.Sprintf("%.40s_%.40s_%08x", strings.Map(allowed, group), strings.Map(allowed, subject), sum)
}
