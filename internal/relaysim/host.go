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
	listeners []*member
	groups    []*group
}

// group is a queue group. Envelopes wait here until a member may get one.
type group struct {
	name    string
	members []*member
	queue   []queued
}

type queued struct {
	e  *relay.Envelope
	at time.Time
}

// member is a subscription of a client.
type member struct {
	l       *link
	sid     uint32
	subject string
	group   *group // nil for a listener
	credit  int
}

// serve serves one client.
func (h *host) serve(ctx context.Context, c *stream.Conn) error {
	l := &link{c: c}
	var members []*member
	find := func(sid uint32) *member {
		i := slices.IndexFunc(members, func(m *member) bool { return m.sid == sid })
		if i < 0 {
			return nil
		}
		return members[i]
	}
	defer func() {
		for _, m := range members {
			h.leave(m)
		}
	}()
	l.run(ctx, func(msg message) {
		switch msg.op {
		case publish:
			h.publish(msg.e)
		case listen, subscribe:
			m := &member{l: l, sid: msg.sid, subject: msg.e.Subject}
			h.join(m, msg.op == subscribe, msg.e.Headers[groupHeader])
			members = append(members, m)
		case flush:
			_ = l.send(message{op: flushed}) // a link that is full or broken loses it
		case next:
			if m := find(msg.sid); m != nil && m.group != nil {
				m.credit++
				h.dispatch(m.group)
			}
		case unsubscribe:
			if m := find(msg.sid); m != nil {
				h.leave(m)
				members = slices.DeleteFunc(members, func(o *member) bool { return o == m })
			}
		}
	})
	return nil
}

func (h *host) join(m *member, grouped bool, name string) {
	t := h.topics[m.subject]
	if t == nil {
		t = &topic{}
		h.topics[m.subject] = t
	}
	if !grouped {
		t.listeners = append(t.listeners, m)
		return
	}
	i := slices.IndexFunc(t.groups, func(g *group) bool { return g.name == name && name != "" })
	if i < 0 {
		i = len(t.groups)
		t.groups = append(t.groups, &group{name: name})
	}
	m.group = t.groups[i]
	m.group.members = append(m.group.members, m)
}

// leave removes a member. The requests of a group without members fail.
func (h *host) leave(m *member) {
	same := func(o *member) bool { return o == m }
	t := h.topics[m.subject]
	t.listeners = slices.DeleteFunc(t.listeners, same)
	if g := m.group; g != nil {
		if g.members = slices.DeleteFunc(g.members, same); len(g.members) == 0 {
			t.groups = slices.DeleteFunc(t.groups, func(o *group) bool { return o == g })
			for _, q := range g.queue {
				h.refuse(q.e, relay.CodeNoResponder)
			}
		}
	}
	if len(t.listeners)+len(t.groups) == 0 {
		delete(h.topics, m.subject)
	}
}

func (h *host) publish(e *relay.Envelope) {
	t := h.topics[e.Subject]
	if t == nil {
		h.refuse(e, relay.CodeNoResponder)
		return
	}
	for _, g := range t.groups {
		if len(g.queue) >= maxQueue {
			h.refuse(e, relay.CodeFull)
			continue
		}
		g.queue = append(g.queue, queued{e, h.now()})
		h.dispatch(g)
	}
	for _, m := range t.listeners {
		_ = m.l.send(message{deliver, m.sid, e}) // a link that is full or broken loses it
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
		i := slices.IndexFunc(g.members, func(m *member) bool { return m.credit > 0 })
		if i < 0 {
			return
		}
		m := g.members[i]
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
		if m.l.send(message{deliver, m.sid, q.e}) != nil {
			m.credit = 0 // until it has a new connection
			continue
		}
		g.queue = g.queue[1:]
		m.credit--
		g.members = append(slices.Delete(g.members, i, i+1), m)
	}
}
