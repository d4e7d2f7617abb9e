package relaysim

import (
	"bufio"
	"context"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/stream"
)

// link is a connection between a client and the host, on either side. It is for one loop.
type link struct {
	c      *stream.Conn
	on     *loop.Loop
	unsent []unsent
	lot    spindle.Lot // the writer waits for messages
	broken bool
}

// unsent is a message that waits since a time.
type unsent struct {
	message
	since time.Duration
}

// send queues a message. It fails if too many are unsent, or if the connection is broken.
func (l *link) send(m message) error {
	switch {
	case l.broken:
		return relay.ErrDown
	case len(l.unsent) >= maxUnsent:
		return relay.ErrFull
	}
	l.unsent = append(l.unsent, unsent{m, l.on.Time()})
	l.lot.Wake(1)
	return nil
}

// run reads, writes and pings until the connection breaks or ctx ends.
func (l *link) run(ctx context.Context, receive func(message)) {
	_ = spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		defer func() {
			l.broken = true
			l.c.Close()
			n.Scope().Cancel(nil)
		}()
		n.Go(l.write)
		n.Go(func(ctx context.Context) error {
			for {
				if err := spindle.Sleep(ctx, pingEvery); err != nil {
					return err
				}
				_ = l.send(message{op: ping}) // if the link is full, there is something to send
			}
		})
		r := bufio.NewReader(l.c)
		for {
			if err := l.c.SetReadDeadline(spindle.Now(ctx).Add(silentAfter)); err != nil {
				return nil
			}
			m, err := read(r)
			if err != nil {
				return nil // the connection is as good as gone
			}
			if m.op != ping {
				receive(m)
			}
		}
	})
}

// write sends what is queued. A failure closes the connection, which ends the reader.
func (l *link) write(ctx context.Context) error {
	defer l.c.Close()
	for {
		for len(l.unsent) == 0 {
			if err := l.lot.Wait(ctx, "messages to send"); err != nil {
				return err
			}
		}
		var b []byte
		for _, m := range l.unsent {
			var err error
			if b, err = m.append(b, l.on.Time()-m.since); err != nil {
				return nil
			}
		}
		l.unsent = l.unsent[:0]
		if _, err := l.c.Write(b); err != nil {
			return nil
		}
	}
}
