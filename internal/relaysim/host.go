package relaysim

import (
	"context"
	"slices"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/stream"
)

// Host is the program of a bus host.
func Host(ctx context.Context) error {
	ln, err := stream.Listen(ctx, "tcp", ":"+port)
	if err != nil {
		return err
	}
	h := &host{topics: map[string]*topic{}, now: func() time.Time { return spindle.Now(ctx) }}
	return stream.Serve(ctx, ln, h.serve)
}

type host struct {
	topics map[string]*topic
	now    func() time.Time
}

type topic struct {
	listeners []*subscription
	groups    []*group
}

// group is a queue group. Envelopes wait here until a member may get one.
type group struct {
	name    string
	members []*subscription
	queue   []queued
}

type queued struct {
	e  *relay.Envelope
	at time.Time
}

// subscription is a client's interest in a subject.
type subscription struct {
	l       *link
	sid     uint32
	subject string
	group   *group // nil for a listener
	credit  int
}

// serve serves one client.
func (h *host) serve(ctx context.Context, c *stream.Conn) error {
	l := &link{c: c, on: spindle.LoopOf(ctx)}
	var subscriptions []*subscription
	find := func(sid uint32) *subscription {
		i := slices.IndexFunc(subscriptions, func(s *subscription) bool { return s.sid == sid })
		if i < 0 {
			return nil
		}
		return subscriptions[i]
	}
	defer func() {
		for _, s := range subscriptions {
			h.leave(s)
		}
	}()
	l.run(ctx, func(msg message) {
		switch msg.op {
		case publish:
			h.publish(msg.e)
		case listen, subscribe:
			s := &subscription{l: l, sid: msg.sid, subject: msg.e.Subject}
			h.join(s, msg.op == subscribe, msg.e.Headers[groupHeader])
			subscriptions = append(subscriptions, s)
		case flush:
			_ = l.send(message{op: flushed}) // a link that is full or broken loses it
		case next:
			if s := find(msg.sid); s != nil && s.group != nil {
				s.credit++
				h.dispatch(s.group)
			}
		case unsubscribe:
			if s := find(msg.sid); s != nil {
				h.leave(s)
				subscriptions = slices.DeleteFunc(subscriptions, func(o *subscription) bool { return o == s })
			}
		}
	})
	return nil
}

func (h *host) join(s *subscription, grouped bool, name string) {
	t := h.topics[s.subject]
	if t == nil {
		t = &topic{}
		h.topics[s.subject] = t
	}
	if !grouped {
		t.listeners = append(t.listeners, s)
		return
	}
	i := slices.IndexFunc(t.groups, func(g *group) bool { return g.name == name && name != "" })
	if i < 0 {
		i = len(t.groups)
		t.groups = append(t.groups, &group{name: name})
	}
	s.group = t.groups[i]
	s.group.members = append(s.group.members, s)
}

// leave removes a member. The requests of a group without members fail.
func (h *host) leave(s *subscription) {
	same := func(o *subscription) bool { return o == s }
	t := h.topics[s.subject]
	t.listeners = slices.DeleteFunc(t.listeners, same)
	if g := s.group; g != nil {
		if g.members = slices.DeleteFunc(g.members, same); len(g.members) == 0 {
			t.groups = slices.DeleteFunc(t.groups, func(o *group) bool { return o == g })
			for _, q := range g.queue {
				h.refuse(q.e, "no-responder")
			}
		}
	}
	if len(t.listeners)+len(t.groups) == 0 {
		delete(h.topics, s.subject)
	}
}

func (h *host) publish(e *relay.Envelope) {
	t := h.topics[e.Subject]
	if t == nil {
		h.refuse(e, "no-responder")
		return
	}
	for _, g := range t.groups {
		if len(g.queue) >= maxQueue {
			h.refuse(e, "full")
			continue
		}
		g.queue = append(g.queue, queued{e, h.now()})
		h.dispatch(g)
	}
	for _, s := range t.listeners {
		_ = s.l.send(message{deliver, s.sid, e}) // a link that is full or broken loses it
	}
}

// refuse answers a request that no worker will get.
func (h *host) refuse(e *relay.Envelope, code string) {
	if e.Kind == relay.KindRequest && e.ReplyTo != "" {
		h.publish(relay.NewFailure(e, code, "refused by the bus"))
	}
}

// dispatch gives envelopes to members that may get one, in turn.
func (h *host) dispatch(g *group) {
	for len(g.queue) > 0 {
		i := slices.IndexFunc(g.members, func(s *subscription) bool { return s.credit > 0 })
		if i < 0 {
			return
		}
		s := g.members[i]
		q := g.queue[0]
		if q.e.Deadline > 0 {
			kept := h.now().Sub(q.at)
			if kept >= q.e.Deadline { // its caller has given up
				g.queue = g.queue[1:]
				continue
			}
			aged := *q.e
			aged.Deadline -= kept
			q.e = &aged
		}
		if s.l.send(message{deliver, s.sid, q.e}) != nil {
			s.credit = 0 // until it has a new connection
			continue
		}
		g.queue = g.queue[1:]
		s.credit--
		g.members = append(slices.Delete(g.members, i, i+1), s)
	}
}
