package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cosync"
	"golang.org/x/sys/unix"
)

// room is who is there. It needs no lock: only tasks of one loop touch it, and
// they switch only where they wait, which say does not.
type room struct{ guests []*guest }

type guest struct {
	lines *cosync.Sender[string]
	stay  *spindle.Scope
}

// queued is how many lines a guest may be behind.
const queued = 64

// say tells all but one.
func (r *room) say(from *guest, line string) {
	for _, g := range r.guests {
		if g != from && g.lines.TrySend(line+"\n") != nil {
			g.stay.Cancel(nil) // its queue is full: too slow
		}
	}
}

// welcome is a guest's stay. The scope ends it from outside, the nursery from
// inside: when one of the two tasks ends, so does the other.
func (r *room) welcome(ctx context.Context, fd, id int) error {
	defer unix.Close(fd)
	return spindle.WithScope(ctx, func(ctx context.Context, stay *spindle.Scope) error {
		tx, rx := cosync.NewChannel[string](queued)
		me := &guest{tx, stay}
		r.guests = append(r.guests, me)
		defer r.leave(me, id)
		r.say(nil, fmt.Sprintf("* guest %d has come", id))

		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error {
				defer stay.Cancel(nil)
				return deliver(ctx, rx, fd)
			})
			defer stay.Cancel(nil)
			return r.listen(ctx, me, id, fd)
		})
	})
}

func (r *room) leave(me *guest, id int) {
	r.guests = slices.DeleteFunc(r.guests, func(g *guest) bool { return g == me })
	r.say(nil, fmt.Sprintf("* guest %d has left", id))
}

// listen passes on what a guest says.
func (r *room) listen(ctx context.Context, me *guest, id, fd int) error {
	lines := bufio.NewScanner(conn{ctx, fd})
	for lines.Scan() {
		r.say(me, fmt.Sprintf("guest %d: %s", id, lines.Text()))
	}
	if err := lines.Err(); !errors.Is(err, bufio.ErrTooLong) {
		return err
	}
	return nil
}

// deliver writes what a guest is to read.
func deliver(ctx context.Context, lines *cosync.Receiver[string], fd int) error {
	for line, err := range lines.All(ctx) {
		if err == nil {
			_, err = io.WriteString(conn{ctx, fd}, line)
		}
		if errors.Is(err, io.ErrClosedPipe) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
