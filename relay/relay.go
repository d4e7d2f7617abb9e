// Package relay connects a web plane with an execution plane. The web plane is a loop that
// takes requests in and sends answers out, and never blocks. The execution plane is a set
// of workers with handlers that may block. A Bus is between them:
//
//	      web plane                  bus                  execution plane
//	┌─────────────────────┐                        ┌──────────────────────────┐
//	│ task ── Caller.Call ┼── request ──▶ queue ───┼─▶ Worker ── handler      │
//	│          │ waiters  │              group     │     │       (a goroutine) │
//	│          ▼          │                        │     │                    │
//	│        reply ◀──────┼── by ReplyTo and ID ◀──┼─────┘                    │
//	│                     │                        │                          │
//	│ scope ends ─────────┼── cancel ──────────────┼─▶ the handler's context  │
//	└─────────────────────┘                        └──────────────────────────┘
//
// A worker serves a subject until its context ends, and then drains:
//
//	bus := relay.NewLocal(relay.LocalOptions{})
//	worker := relay.NewWorker(bus)
//	go worker.Serve(ctx, "resize", func(ctx context.Context, r *relay.Request) ([]byte, error) {
//		return resize(ctx, r.Body) // may block
//	}, relay.ServeOptions{Concurrency: 8})
//
// A caller sends requests. Call waits for the reply without blocking the loop:
//
//	caller, err := relay.NewCaller(ctx, bus, relay.CallerOptions{})
//	small, err := caller.Call(ctx, "resize", image)
//
// Every call ends exactly once: with a reply, an error, a time-out, or the cancellation of
// the scope that waits. In the last two cases the worker gets a cancel message, and the
// handler's context ends. A reply that comes later is counted and dropped.
//
// # Goroutines
//
// A Caller, a Worker and a Bus may be used from any goroutine and from tasks of any loop.
// In a task, pass the task's context; waiting then parks the task.
package relay

import (
	"context"
	"io"
	"time"
)

// Bus carries envelopes from publishers to subscribers. NewLocal makes one inside the
// process. Package relaytest tests implementations against this contract:
//
//   - Methods may be called from any goroutine. In a task they must be given its context,
//     and park the task instead of blocking the loop.
//   - An envelope goes to every listener of its subject and to one member of each queue
//     group. If there are none, Publish fails with ErrNoResponder, or, where the publisher
//     cannot know, a Request is answered by a Failure with the code "no-responder".
//   - Envelopes of one publisher to one listener arrive in order, or are lost.
//   - Every queue is bounded. Publish waits while a queue of its subject is full.
//     TryPublish fails with ErrFull instead, or with cosync.ErrWouldBlock if only Publish can
//     succeed. An envelope that is dropped after it was accepted is counted.
//   - A bus that is not connected fails with ErrDown, and a closed one with ErrClosed.
type Bus interface {
	// Publish sends e. It waits while the queue is full. A request without a Trace gets
	// that of ctx.
	Publish(ctx context.Context, e *Envelope) error

	// TryPublish is Publish that fails with ErrFull instead of waiting.
	TryPublish(e *Envelope) error

	// Listen calls deliver for each envelope of a subject, until the result is closed. When
	// its Close has returned, deliver is not called again.
	// Deliver does not wait. It may be called from any goroutine, but not for two
	// envelopes of one publisher at the same time.
	Listen(ctx context.Context, subject string, deliver func(e *Envelope)) (io.Closer, error)

	// Subscribe joins a queue group. Each envelope of the subject goes to one member.
	// Members with the group "" are in a group of their own.
	Subscribe(ctx context.Context, subject, group string) (Subscription, error)

	// Ready returns nil if the bus can be used now, and otherwise the reason.
	Ready() error

	// Close ends all subscriptions.
	Close() error
}

// Subscription is a membership in a queue group.
type Subscription interface {
	// Next waits for an envelope. It may be called by several goroutines, or several tasks of
	// one loop, at a time. It fails with ErrClosed after Close.
	Next(ctx context.Context) (Delivery, error)

	// Close leaves the group. Envelopes that Next has not returned stay for other
	// members. If there are none, requests among them are answered by a Failure with
	// the code "no-responder", and the others are counted as dropped.
	Close() error
}

// Delivery is an envelope that a member of a queue group has received.
type Delivery struct {
	*Envelope

	// Settle tells the bus what became of the envelope, where the bus redelivers;
	// otherwise it is nil. It must be called once.
	Settle func(o Outcome)
}

// Outcome is what became of a delivery. Zero means that the envelope is dealt with.
type Outcome struct {
	// Again means that the envelope is to be delivered again, here or to another member,
	// after the time After at the earliest. If After is zero, the bus chooses the time.
	Again bool
	After time.Duration

	// Err is why a request without a caller has failed for good. A bus with a queue for such
	// requests puts it there.
	Err error
}
