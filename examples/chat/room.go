package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/stream"
)

// room holds the guests. It needs no lock: only tasks of one loop use it, and they switch
// only where they wait, which say does not.
type room struct {
	guests []*guest
	lastID int
}

type guest struct {
	id    int
	lines *cosync.Sender[string]
	scope *spindle.Scope // of the guest's two tasks
}

const (
	queueLength = 64       // lines that a guest may be behind
	lineLimit   = 64 << 10 // bytes
)

// say sends a line to all guests but one.
func (r *room) say(except *guest, format string, args ...any) {
	line := fmt.Sprintf(format+"\n", args...)
	for _, g := range r.guests {
		if g != except && g.lines.TrySend(line) != nil {
			g.scope.Cancel(nil) // the queue is full: the guest reads too slowly
		}
	}
}

// serve runs a guest's two tasks. When either ends, it cancels the nursery's scope, and so
// the other; say cancels both.
func (r *room) serve(ctx context.Context, c *stream.Conn) error {
	r.lastID++
	tx, rx := cosync.NewChannel[string](queueLength)
	me := &guest{id: r.lastID, lines: tx}
	err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		me.scope = n.Scope()
		r.guests = append(r.guests, me)
		r.say(nil, "* guest %d has come", me.id)
		n.Go(func(ctx context.Context) error {
			defer n.Scope().Cancel(nil)
			return write(ctx, c, rx)
		})
		defer n.Scope().Cancel(nil)
		return r.read(me, c)
	})
	r.guests = slices.DeleteFunc(r.guests, func(g *guest) bool { return g == me })
	r.say(nil, "* guest %d has left", me.id)
	return err
}

// read passes on a guest's lines until the connection ends or a line is too long.
func (r *room) read(me *guest, c *stream.Conn) error {
	lines := stream.NewReader(c, lineLimit)
	for {
		line, err := lines.ReadLine()
		if err != nil {
			return err
		}
		r.say(me, "guest %d: %s", me.id, line)
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
