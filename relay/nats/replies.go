package nats

import (
	"context"

	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/internal/replies"
)

// Internal returns what callers and workers use instead of envelopes for replies. It is not for
// other code: its type is internal and may change in any version.
func (b *Bus) Internal() *replies.Bus[relay.Envelope, relay.Listener] {
	return &replies.Bus[relay.Envelope, relay.Listener]{Of: b, Reply: b.reply, Listen: b.listenReplies}
}

// reply is TryPublish of a reply that has only an ID, a token and a body.
func (b *Bus) reply(to string, id, token uint64, body []byte) error {
	return b.TryPublish(&relay.Envelope{Kind: relay.KindReply, ID: id, Token: token, Subject: to, Body: body})
}

// listenReplies is Listen, but the envelope belongs to deliver only until it returns.
func (b *Bus) listenReplies(ctx context.Context, subject string, deliver func(*relay.Envelope)) (relay.Listener, error) {
	return b.listen(ctx, subject, &listener{b: b, deliver: deliver, reused: &relay.Envelope{}})
}
