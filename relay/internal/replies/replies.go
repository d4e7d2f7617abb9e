// Package replies is what package relay uses of a bus on which single replies cost less than
// envelopes. Package relay/nats implements it, in another module.
package replies

import "context"

// Bus has the functions of such a bus. Its Publish and TryPublish do not keep envelopes. E is
// relay.Envelope and L is relay.Listener: package relay imports this one.
type Bus[E, L any] struct {
	// Of is the bus. A type that embeds it has its methods, but may have a Listen or a
	// TryPublish of its own, and must not be used by these functions.
	Of any

	// Reply is TryPublish of a reply that has only an ID, a token and a body.
	Reply func(to string, id, token uint64, body []byte) error

	// Listen is Listen, but the envelope belongs to deliver only until it returns. Its Body
	// and Headers may be kept.
	Listen func(ctx context.Context, subject string, deliver func(*E)) (L, error)
}
