package web

import (
	"context"
	"io"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/http1"
	"github.com/spindleloop/spindle/internal/loopcore"
)

// sendBody has the body sent while the response is waited for: a server may answer
// before it has read all, or anything. A task's body is read by a task, a goroutine's
// by a goroutine, as it may block.
func (t *trip) sendBody() {
	t.sending, t.expects = true, false
	p := t.cc.p
	if t.who == inGoroutine {
		p.l.Internal().Kernel().Start(t.upload)
		return
	}
	p.home.GoWith(spindle.TaskOptions{Name: "request body to " + t.cc.where.address}, func(context.Context) error {
		t.upload()
		return nil
	})
}

// upload sends the body. That the server does not take all of it does not end the
// connection: it may have said why.
func (t *trip) upload() {
	err := t.copyBody()
	t.closeBody()
	t.mu.Lock()
	t.sending = false
	t.fault = err
	over := t.over
	t.mu.Unlock()
	switch {
	case !over:
	case err == nil:
		t.cc.release()
	default:
		t.cc.close()
	}
}

// uploadSize is how much of a body is read at once.
const uploadSize = 32 << 10

func (t *trip) copyBody() error {
	length := t.length()
	tunnels := t.tunnels()
	// Room for the head of a chunk before the data, and its end behind.
	const before = len("ffffffff\r\n")
	buf := make([]byte, before+uploadSize+len(http1.ChunkEnd))
	var sent int64
	for {
		n, err := t.req.Body.Read(buf[before : before+uploadSize])
		if sent += int64(n); length >= 0 && sent > length && !tunnels {
			return t.failBody(wrongLength(length, sent))
		}
		if n > 0 {
			data := buf[before : before+n]
			if length < 0 {
				head := http1.AppendChunkHead(buf[:0:before], n)
				from := before - len(head)
				copy(buf[from:], head)
				data = append(buf[from:before+n], http1.ChunkEnd...)
			}
			if _, err := t.cc.conn.Write(data); err != nil {
				return err
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return t.failBody(err) // the server must not take it for all
		}
	}
	switch {
	case tunnels:
		return nil
	case length < 0:
		last, err := http1.AppendLastChunk(nil, t.req.Trailer)
		if err == nil {
			_, err = t.cc.conn.Write(last)
		}
		return err
	case sent < length:
		return t.failBody(wrongLength(length, sent))
	}
	return nil
}

// failBody ends the connection because the body cannot be sent. The error is set before,
// so that it is the one that the request fails with.
func (t *trip) failBody(err error) error {
	t.mu.Lock()
	t.fault = err
	t.mu.Unlock()
	t.cc.close()
	return err
}

// leftover is how long a body may still be under way when the response has ended,
// for the connection to be used again.
const leftover = 50 * time.Millisecond

// finish is the end of the response: the connection is kept, or closed. It may be
// called from any goroutine.
func (t *trip) finish() {
	t.mu.Lock()
	keep := !t.closing && len(t.cc.rest) == 0 && t.fault == nil
	waits := keep && t.sending
	t.over = waits
	t.mu.Unlock()
	switch {
	case waits:
		_ = t.cc.p.l.Internal().Post(loopcore.DropAtClose, func() {
			t.cc.p.l.CallLater(leftover, func() {
				t.mu.Lock()
				defer t.mu.Unlock()
				if t.sending { // the server does not want it
					t.over = false
					t.cc.close()
				}
			})
		})
	case keep:
		t.cc.release()
	default:
		t.cc.close()
	}
}
