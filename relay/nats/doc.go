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
// headers are headers. The reply subject of a request carries its ID, token, deadline and
// trace. A reply has nothing else; other messages have one header named Relay, and traceparent.
// A request may have tracestate:
//
//	Relay: KIND ID-TOKEN SEQ ATTEMPT DEADLINE_US [REPLY_TO]
//
// Programs that know nothing of relay can take part. A message without the header that has
// a reply subject is a request, and one on the reply subject of a call is its reply. So a
// program in any language can serve a subject by responding to requests, and can call a
// worker by requesting.
//
// An answer that is an error has the header Relay-Error, and the text of the error as its payload.
// The value is a code: "error" if the handler failed, and others such as "panic", "full" and
// "deadline"; see relay.RemoteError. A program that calls a worker without relay must look for it. One that
// serves a subject sends it with its response, to fail a call.
//
// # Queues
//
// NATS gives each request to a random member of the queue group. It then waits in the
// queue of that worker, which is bounded. A request that does not fit is answered at once
// by a failure with the code "full". When a worker leaves, it sends the requests
// that wait in its queue to the other members. NATS itself answers requests that have no
// worker. An envelope without a reply address that has no worker is lost, and Publish
// succeeds. If a worker's process dies, its calls wait until their deadlines.
//
// A call that fails with relay.ErrNoResponder has started no handler, so it may be repeated. A request
// that the server is about to send to the last worker when that leaves fails so, even if another
// worker has joined meanwhile.
//
// # Permissions
//
// A worker answers on the reply subject of each request, so a server with allow_responses
// confines it: it can answer what it was asked, and nothing else. The ID of a call has a random
// token that only the request shows. For the subject pay, a role needs:
//
//	role    publish                            subscribe
//	caller  pay, _cancel.pay, _worker.*.pay    _inbox.>
//	worker  pay, and allow_responses           pay, _cancel.pay, _worker.*.pay
//
// A worker publishes to its own subject only when it leaves: it hands on what waits in its queue.
// By default allow_responses permits one response within two minutes. Set its max to -1 for
// streams, and its expires to the longest deadline.
//
// For a durable subject, a worker needs _inbox.*.* to publish to, because a stored request keeps
// its reply subject in a header. Callers and workers also need the API of JetStream:
//
//	both    publish    $JS.API.STREAM.CREATE.SPINDLE, and the same with UPDATE and INFO
//	        subscribe  _INBOX.>, or the client's CustomInboxPrefix
//	worker  publish    $JS.API.CONSUMER.CREATE.SPINDLE.>, $JS.API.CONSUMER.MSG.NEXT.SPINDLE.>,
//	                   $JS.ACK.SPINDLE.>
//	with Results       $JS.API.STREAM.CREATE.KV_SPINDLE_RESULTS, and the same with UPDATE and INFO;
//	                   $KV.SPINDLE_RESULTS.>, $JS.API.DIRECT.GET.KV_SPINDLE_RESULTS.>
//
// A program that may subscribe to _inbox.> can read the replies to all callers. Give that to
// callers only, and accounts of their own to callers that must not see each other's replies.
//
// # Durable subjects
//
// Requests of the subjects in Options.Durable are kept by JetStream until a worker has
// dealt with them: they survive workers, connections, and with replicas servers. Publish
// returns when the server has stored the request. TryPublish fails with cosync.ErrWouldBlock,
// because storing takes time. A request with an idempotency key is stored once for each
// subject. All programs that use a durable subject must have it in their Options; see
// Durable.
package nats
