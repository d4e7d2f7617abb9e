// Package relaysim is a bus of package relay between simulated hosts, and worlds that use
// it. A bus host connects callers and workers, by streams.
//
// A message on a connection is an operation, the number of a subscription, and a frame:
//
//	publish      client to host   an envelope
//	listen       client to host   the frame names the subject
//	subscribe    client to host   the frame names the subject and the group
//	next         client to host   the subscription may get one envelope more
//	unsubscribe  client to host
//	deliver      host to client   an envelope
//	ping         both             says that the sender is alive
//	flush        client to host   is answered by flushed
//	flushed      host to client
package relaysim

import (
	"encoding/binary"
	"io"
	"time"

	"github.com/spindleloop/spindle/internal/frame"
	"github.com/spindleloop/spindle/relay"
)

type op uint8

const (
	ping op = iota
	publish
	listen
	subscribe
	next
	unsubscribe
	deliver
	flush
	flushed
)

const (
	port        = "4222"
	pingEvery   = time.Second
	silentAfter = 3 * time.Second // a connection without pings is dead
	maxBody     = 1 << 16
	maxQueue    = 64  // envelopes of a queue group
	maxUnsent   = 256 // messages of a connection
	groupHeader = "group"
)

// message is an operation on a connection.
type message struct {
	op  op
	sid uint32
	e   *relay.Envelope // nil for ping, next and unsubscribe
}

// append appends m to b, after it has waited for a time.
func (m message) append(b []byte, waited time.Duration) ([]byte, error) {
	b = append(b, byte(m.op))
	b = binary.BigEndian.AppendUint32(b, m.sid)
	if m.e == nil {
		return b, nil
	}
	e := *m.e
	if e.Deadline > 0 {
		e.Deadline = max(e.Deadline-waited, 1)
	}
	return frame.Append(b, &e)
}

func read(r io.Reader) (m message, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return m, err
	}
	m.op, m.sid = op(head[0]), binary.BigEndian.Uint32(head[1:])
	switch m.op {
	case publish, listen, subscribe, deliver:
		m.e, err = frame.Read(r, maxBody)
	}
	return m, err
}
