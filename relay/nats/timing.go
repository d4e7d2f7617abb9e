package nats

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/spindleloop/spindle/relay"
)

// delayOf returns how long a request has to wait for its delivery, and whether it was published
// with a delay.
func delayOf(e *relay.Envelope, meta *jetstream.MsgMetadata) (wait time.Duration, delayed bool) {
	text := e.Headers[relay.Delay]
	if text == "" {
		return 0, false
	}
	delay, err := time.ParseDuration(text)
	if err != nil {
		return 0, false // of a program without relay
	}
	return time.Until(meta.Timestamp.Add(delay)), true
}

// publishEvery publishes a job in each period until the bus is closed.
func (b *Bus) publishEvery(subject string, every time.Duration) {
	for {
		next := time.Now().Truncate(every).Add(every)
		select {
		case <-time.After(time.Until(next)):
		case <-b.stopping:
			return
		}
		b.publishPeriod(subject, every, next)
	}
}

// publishPeriod publishes the job of a period. It tries again until the next period begins.
func (b *Bus) publishPeriod(subject string, every time.Duration, at time.Time) {
	key := fmt.Sprintf("every %v at %s", every, at.UTC().Format(time.RFC3339Nano))
	e := &relay.Envelope{Subject: subject, Headers: map[string]string{relay.IdempotencyKey: key}}
	for time.Since(at) < every && b.Publish(context.Background(), e) != nil {
		select {
		case <-time.After(min(time.Second, every)):
		case <-b.stopping:
			return
		}
	}
}
