package nats

import (
	"context"
	"fmt"
	"maps"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spindleloop/spindle/relay"
)

// Headers of a request in the dead-letter queue.
const (
	deadSubject = "Relay-Dead-Subject"
	deadReason  = "Relay-Dead-Reason"
)

// giveUp ends a request that was tried too often. Its caller, if it still waits, gets a
// failure, unless an earlier delivery is still worked on here: that one will answer.
func (s *jobs) giveUp(m jetstream.Msg, e *relay.Envelope, why string) {
	s.b.dead.Add(1)
	s.b.log().Error("relay/nats: a durable request is given up", "subject", e.Subject, "attempts", s.d.Attempts, "key", e.Headers[relay.IdempotencyKey])
	if s.d.DeadLetter != "" && e.Subject != s.d.DeadLetter {
		s.bury(m, e, fmt.Sprintf("tried %d times; %s", s.d.Attempts, why))
	} else {
		s.conclude(m, func() error { return m.TermWithReason("too many attempts") })
	}
	if e.Kind == relay.KindRequest && e.ReplyTo != "" && !s.worksOn(m) {
		why := fmt.Sprintf("the request was tried %d times", s.d.Attempts)
		_ = s.b.TryPublish(relay.NewFailure(e, "given-up", why)) // its caller has a deadline
	}
}

// bury moves a request to the dead-letter queue. If the server does not store it there, the
// request stays where it is, and is delivered again.
func (s *jobs) bury(m jetstream.Msg, e *relay.Envelope, why string) {
	dead := &relay.Envelope{Subject: s.d.DeadLetter, Trace: e.Trace, Body: e.Body, Headers: map[string]string{}}
	maps.Copy(dead.Headers, e.Headers)
	delete(dead.Headers, relay.Delay)
	dead.Headers[deadSubject], dead.Headers[deadReason] = e.Subject, headerText(why)
	s.conclude(m, func() error {
		msg := new(nats.Msg)
		err := s.b.encode(msg, dead, true)
		if err == nil {
			err = s.b.store(context.Background(), msg)
		}
		if err != nil {
			return m.NakWithDelay(s.d.Backoff[len(s.d.Backoff)-1])
		}
		return m.TermWithReason(why)
	})
}

// headerText returns a text as the value of a header.
func headerText(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c < ' ' {
			b[i] = ' '
		}
	}
	return string(b[:min(len(b), 1000)])
}
