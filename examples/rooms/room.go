package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/stream"
)

// room holds the guests of one loop.
type room struct {
	number int
	rooms  []*room                // of all loops; immutable
	inbox  *cosync.Inbox[message] // messages from all loops; for any goroutine
	guests map[string]*guest      // only for tasks of this loop
}

type message struct{ from, line string }

type guest struct {
	lines *cosync.Sender[string]
	scope *spindle.Scope // of the guest's tasks
}

// queueLength is how many lines a guest may be behind.
const queueLength = 64

// say sends a message to every room. If an inbox is full, the sender waits, and its
// connection is not read meanwhile, so nothing accumulates between the loops. The wait is
// short, because deliver never waits for a guest.
func (r *room) say(ctx context.Context, from, format string, args ...any) error {
	m := message{from, fmt.Sprintf(format+"\n", args...)}
	for _, other := range r.rooms {
		if err := other.inbox.Put(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// deliver passes messages of all rooms to the guests of this room.
func (r *room) deliver(ctx context.Context) error {
	for m, err := range r.inbox.All(ctx) {
		if err != nil {
			return err
		}
		for name, g := range r.guests {
			if name != m.from && g.lines.TrySend(m.line) != nil {
				g.scope.Cancel(nil) // the queue is full: the guest reads too slowly
			}
		}
	}
	return nil
}

// serveGuest serves one guest. One task reads and another one writes. When either ends, it
// cancels the scope of their nursery, and so the other; deliver may cancel it too.
func (r *room) serveGuest(ctx context.Context, c *stream.Conn) error {
	name := c.RemoteAddr().String()
	err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		defer n.Scope().Cancel(nil)
		tx, rx := cosync.NewChannel[string](queueLength)
		r.guests[name] = &guest{lines: tx, scope: n.Scope()}
		defer delete(r.guests, name)
		n.Go(func(ctx context.Context) error {
			defer n.Scope().Cancel(nil)
			return write(ctx, c, rx)
		})
		if err := r.say(ctx, "", "* %s has come to room %d", name, r.number); err != nil {
			return err
		}
		return r.read(ctx, name, c)
	})
	if err := r.say(ctx, "", "* %s has left", name); err != nil {
		return err
	}
	return err
}

// read passes on a guest's lines.
func (r *room) read(ctx context.Context, name string, c *stream.Conn) error {
	lines := stream.NewReader(c, 64<<10)
	for {
		line, err := lines.ReadLine()
		if err != nil {
			return err // EOF, or a line that is too long
		}
		if err := r.say(ctx, name, "%s: %s", name, line); err != nil {
			return err
		}
	}
}

// write writes the queued lines to a guest.
func write(ctx context.Context, c *stream.Conn, lines *cosync.Receiver[string]) error {
	for line, err := range lines.All(ctx) {
		if err != nil {
			return err
		}
		if _, err := io.WriteString(c, line); err != nil {
			return err
		}
	}
	return nil
}
