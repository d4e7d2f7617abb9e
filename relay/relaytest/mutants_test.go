package relaytest_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/relaytest"
)

// mutant is a bus that breaks one clause of the contract. What is nil is right.
type mutant struct {
	relay.Bus
	clause     string // the test that must fail
	publish    func(ctx context.Context, b relay.Bus, e *relay.Envelope) error
	tryPublish func(b relay.Bus, e *relay.Envelope) error
	listener   func(io.Closer) io.Closer
	member     func(relay.Subscription) relay.Subscription
}

func (m mutant) Publish(ctx context.Context, e *relay.Envelope) error {
	if m.publish != nil {
		return m.publish(ctx, m.Bus, e)
	}
	return m.Bus.Publish(ctx, e)
}

func (m mutant) TryPublish(e *relay.Envelope) error {
	if m.tryPublish != nil {
		return m.tryPublish(m.Bus, e)
	}
	return m.Bus.TryPublish(e)
}

func (m mutant) Listen(ctx context.Context, subject string, deliver func(*relay.Envelope)) (io.Closer, error) {
	l, err := m.Bus.Listen(ctx, subject, deliver)
	if m.listener != nil && err == nil {
		l = m.listener(l)
	}
	return l, err
}

func (m mutant) Subscribe(ctx context.Context, subject, group string) (relay.Subscription, error) {
	s, err := m.Bus.Subscribe(ctx, subject, group)
	if m.member != nil && err == nil {
		s = m.member(s)
	}
	return s, err
}

type openListener struct{ io.Closer }

func (openListener) Close() error { return nil }

type openMember struct{ relay.Subscription }

func (openMember) Close() error { return nil }

// cut returns e with at most n bytes of its body.
func cut(e *relay.Envelope, n int) *relay.Envelope {
	short := *e
	short.Body = e.Body[:min(len(e.Body), n)]
	return &short
}

func withoutFull(err error) error {
	if errors.Is(err, relay.ErrFull) {
		return nil
	}
	return err
}

var mutants = map[string]mutant{
	"none": {},
	"Publish never waits": {clause: "Publish waits", publish: func(_ context.Context, b relay.Bus, e *relay.Envelope) error {
		return b.TryPublish(e)
	}},
	"Publish drops what does not fit": {clause: "Publish waits", publish: func(_ context.Context, b relay.Bus, e *relay.Envelope) error {
		return withoutFull(b.TryPublish(e))
	}},
	"Publish ignores its context": {clause: "Publish waits", publish: func(ctx context.Context, b relay.Bus, e *relay.Envelope) error {
		return spindle.Shield(ctx, func(ctx context.Context) error { return b.Publish(ctx, e) })
	}},
	"ErrFull is nil": {clause: "no request in a full queue", tryPublish: func(b relay.Bus, e *relay.Envelope) error { return withoutFull(b.TryPublish(e)) }},
	"bodies are cut": {clause: "bodies arrive whole", tryPublish: func(b relay.Bus, e *relay.Envelope) error { return b.TryPublish(cut(e, 1000)) }},
	"too large is accepted": {clause: "a body that is too large", tryPublish: func(b relay.Bus, e *relay.Envelope) error {
		err := b.TryPublish(e)
		if errors.Is(err, relay.ErrTooLarge) {
			return nil
		}
		return err
	}},
	"too large is cut": {clause: "a body that is too large", publish: func(ctx context.Context, b relay.Bus, e *relay.Envelope) error {
		return b.Publish(ctx, cut(e, 1<<20))
	}},
	"a listener gets envelopes after Close": {clause: "nothing is delivered after Close", listener: func(l io.Closer) io.Closer { return openListener{l} }},
	"Next delivers after Close":             {clause: "nothing is delivered after Close", member: func(s relay.Subscription) relay.Subscription { return openMember{s} }},
}

const mutantVariable = "SPINDLE_RELAYTEST_MUTANT"

// TestMutants: the suite fails for every bus that breaks the contract, and for no other.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for what mutants lose")
	}
	for name, m := range mutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			suite := exec.Command(os.Args[0], "-test.run=^TestMutant$/"+strings.ReplaceAll(m.clause, " ", "_"))
			suite.Env = append(os.Environ(), mutantVariable+"="+name)
			out, err := suite.CombinedOutput()
			failed := strings.Contains(string(out), "--- FAIL: TestMutant/")
			if alive := !failed; alive != (name == "none") || (err == nil) != alive {
				t.Errorf("the suite: %v\n%s", err, out)
			}
		})
	}
}

// TestMutant runs the suite for one mutant. TestMutants starts it.
func TestMutant(t *testing.T) {
	m, ok := mutants[os.Getenv(mutantVariable)]
	if !ok {
		t.Skip("TestMutants starts it")
	}
	var of *testing.T
	relaytest.Run(t, relaytest.Config{
		Connect: func(context.Context) (relay.Bus, error) { return m, nil },
		Run: func(t *testing.T, program func(context.Context) error) {
			if of != t {
				m.Bus, of = relay.NewLocal(relay.LocalOptions{Queue: 4}), t
			}
			if err := spindle.Run(t.Context(), program); err != nil {
				t.Error(err)
			}
		},
	})
}
