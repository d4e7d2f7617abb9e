// Package nats puts the planes of package relay on NATS: the same Callers and Workers, on
// many machines. It is a Go module of its own, so that the core does not depend on it.
//
//	bus, err := nats.Connect(ctx, "nats://broker:4222", nats.Options{})
//	worker := relay.NewWorker(bus)
//	caller, err := relay.NewCaller(ctx, bus, relay.CallerOptions{})
//
// # Messages
//
// Subjects are NATS subjects. An envelope is a NATS message: its body is the payload, its
// headers are headers. The reply subject of a request carries its ID, deadline and trace. A
// reply has nothing else; other messages have one header named Relay, and traceparent. A request
// may have tracestate:
//
//	Relay: KIND ID SEQ ATTEMPT DEADLINE_US [REPLY_TO]
//
// Programs that know nothing of relay can take part. A message without the header that has
// a reply subject is a request, and one on the reply subject of a call is its reply. So a
// program in any language can serve a subject by responding to requests, and can call a
// worker by requesting.
//
// # Queues
//
// NATS gives each request to a random member of the queue group. It then waits in the
// queue of that worker, which is bounded. A request that does not fit is answered at once
// by a failure with the code relay.CodeFull. When a worker leaves, it sends the requests
// that wait in its queue to the other members. NATS itself answers requests that have no
// worker. An envelope without a reply address that has no worker is lost, and Publish
// succeeds. If a worker's process dies, its calls wait until their deadlines.
//
// # Durable subjects
//
// Requests of the subjects in Options.Durable are kept by JetStream until a worker has
// dealt with them: they survive workers, connections, and with replicas servers. Publish
// returns when the server has stored the request. TryPublish fails with relay.ErrMustWait,
// because storing takes time. A request with an idempotency key is stored once for each
// subject. All programs that use a durable subject must have it in their Options; see
// Durable.
package nats
