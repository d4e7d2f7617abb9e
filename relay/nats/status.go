package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/spindleloop/spindle/internal/probe"
	"github.com/spindleloop/spindle/relay"
)

// Job describes a job that the server keeps.
type Job struct {
	Subject   string // of the job, or the dead-letter subject
	Dead      bool   // it is in the dead-letter queue
	Reason    string // why, if it is dead
	Published time.Time

	seq uint64
}

// Job finds a job by its subject and IdempotencyKey. It returns nil if the server does not keep
// such a job: it is done, or was never published. A job that is kept waits, or runs, or is dead.
// The server is asked for one job of the subject after the other, so with many jobs it takes long.
func (b *Bus) Job(ctx context.Context, subject, key string) (job *Job, err error) {
	d := b.durable(subject)
	if d == nil {
		return nil, fmt.Errorf("relay/nats: Job: the subject %s is not durable", subject)
	}
	err = blocking(ctx, func() (err error) {
		job, err = b.findJob(ctx, d.Stream, subject, func(m *jetstream.RawStreamMsg) bool { return m.Header.Get(relay.IdempotencyKey) == key })
		if job != nil || err != nil || d.DeadLetter == "" {
			return err
		}
		job, err = b.findJob(ctx, d.Stream, d.DeadLetter, func(m *jetstream.RawStreamMsg) bool {
			return m.Header.Get(relay.IdempotencyKey) == key && m.Header.Get(deadSubject) == subject
		})
		return err
	})
	return job, err
}

// findJob returns the first job of a subject that matches, or nil.
func (b *Bus) findJob(ctx context.Context, stream, subject string, matches func(*jetstream.RawStreamMsg) bool) (*Job, error) {
	s, err := b.js.Stream(ctx, stream)
	if err != nil {
		return nil, translated(err)
	}
	for seq := uint64(1); ; seq++ {
		m, err := s.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, translated(err)
		}
		if matches(m) {
			reason := m.Header.Get(deadReason)
			return &Job{Subject: subject, Dead: m.Header.Get(deadSubject) != "", Reason: reason, Published: m.Time, seq: m.Sequence}, nil
		}
		seq = m.Sequence
	}
}

// CancelJob removes a job that the server keeps, and ends the context of its handler if it runs.
// It reports whether there was one.
func (b *Bus) CancelJob(ctx context.Context, subject, key string) (found bool, err error) {
	job, err := b.Job(ctx, subject, key)
	if job == nil || err != nil {
		return false, err
	}
	err = blocking(ctx, func() error {
		s, err := b.js.Stream(ctx, b.durable(subject).Stream)
		if err == nil {
			err = s.DeleteMsg(ctx, job.seq)
		}
		if errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) || errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil // it has ended meanwhile
		}
		return translated(err)
	})
	if err != nil {
		return true, err
	}
	// A worker that has just got the job remembers the cancellation for a minute.
	return true, b.Publish(ctx, &relay.Envelope{Kind: relay.KindCancel, ID: job.seq, Subject: "_cancel." + job.Subject, Deadline: time.Minute})
}

// ProbeMetrics returns how many jobs of a subject wait and run, as the server counts them.
func (s *jobs) ProbeMetrics() []probe.Sample {
	ctx, cancel := context.WithTimeout(s.stopped, time.Second)
	defer cancel()
	c, err := s.b.js.Consumer(ctx, s.d.Stream, consumerName(s.subject, s.group))
	if err != nil {
		return nil // there is no connection
	}
	info := c.CachedInfo()
	sample := func(state string, n int) probe.Sample {
		return probe.Sample{
			Name: "spindle_relay_jobs", Help: "Stored requests by state: that wait, that run or wait for another attempt.", Gauge: true,
			Labels: [][2]string{{"subject", s.subject}, {"group", s.group}, {"state", state}}, Value: float64(n),
		}
	}
	dead := probe.Sample{Name: "spindle_relay_jobs_dead_total", Help: "Stored requests that were given up.", Value: float64(s.b.dead.Load())}
	return []probe.Sample{sample("waiting", int(info.NumPending)), sample("running", info.NumAckPending), dead}
}
