package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/stream"
)

// room is the guests of one loop.
type room struct {
	number int
	rooms  []*room                // all of them; does not change
	inbox  *cosync.Inbox[message] // what is said, anywhere: for every loop
	guests map[string]*guest      // for tasks of this loop only, hence no lock
}

type message struct{ from, line string }

type guest struct {
	lines *cosync.Sender[string]
	stay  *spindle.Scope
}

// queued is how many lines a guest may be behind.
const queued = 64

// say tells every room. If one is behind, whoever speaks waits for it, and is not
// read from meanwhile: so nothing piles up between the loops. It cannot last,
// because deliver waits for nobody.
func (r *room) say(ctx context.Context, from, format string, args ...any) error {
	m := message{from, fmt.Sprintf(format+"\n", args...)}
	for _, other := range r.rooms {
		if err := other.inbox.Put(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// deliver hands to the guests of this room what is said in any.
func (r *room) deliver(ctx context.Context) error {
	for m, err := range r.inbox.All(ctx) {
		if err != nil {
			return err
		}
		for name, g := range r.guests {
			if name != m.from && g.lines.TrySend(m.line) != nil {
				g.stay.Cancel(nil) // its queue is full: too slow
			}
		}
	}
	return nil
}

// welcome is a guest's stay. One task reads from it and another writes to it; when
// either ends, the scope of their nursery ends both, as deliver may do.
func (r *room) welcome(ctx context.Context, c *stream.Conn) error {
	name := c.RemoteAddr().String()
	err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		defer n.Scope().Cancel(nil)
		tx, rx := cosync.NewChannel[string](queued)
		r.guests[name] = &guest{lines: tx, stay: n.Scope()}
		defer delete(r.guests, name)
		n.Go(func(ctx context.Context) error {
			defer n.Scope().Cancel(nil)
			return write(ctx, c, rx)
		})
		if err := r.say(ctx, "", "* %s has come to room %d", name, r.number); err != nil {
			return err
		}
		return r.listen(ctx, name, c)
	})
	if told := r.say(ctx, "", "* %s has left", name); told != nil {
		return told
	}
	return err
}

// listen passes on what a guest says.
func (r *room) listen(ctx context.Context, name string, c *stream.Conn) error {
	lines := stream.NewReader(c, 64<<10)
	for {
		line, err := lines.ReadLine()
		if err != nil {
			return err // the end, or too long a line: Serve takes no offence
		}
		if err := r.say(ctx, name, "%s: %s", name, line); err != nil {
			return err
		}
	}
}

// write writes what a guest is to read.
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
