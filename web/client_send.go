package web

import (
	"context"
	"io"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/internal/http1"
)

// sendBody sends the body in the background, because a server may answer before it has
// read all of it. A task's body is read by a task, another goroutine's by a goroutine,
// because it may block.
func (t *trip) sendBody() {
	t.sending, t.mode = true, uploadFollows
	p := t.p
	if t.caller == inGoroutine {
		p.l.Internal().Kernel().Start(t.upload)
		return
	}
	p.nursery.GoWith(spindle.TaskOptions{Name: "request body to " + t.req.URL.Host, Values: coro.Helper{}}, func(context.Context) error {
		t.upload()
		return nil
	})
}

// upload sends the body. If the server does not read all of it, the connection stays open:
// the response may have the reason.
func (t *trip) upload() {
	err := t.copyBody()
	if err == errUploadOver {
		err = nil
	}
	t.closeBody()
	t.mu.Lock()
	t.sending = false
	t.bodyErr = err
	over := t.responseDone
	t.mu.Unlock()
	switch {
	case !over:
		t.afterUpload()
	case t.call != nil:
	case err == nil:
		t.cc.release()
	default:
		t.cc.close()
	}
}

// afterUpload starts HeaderTimeout, if there is one and the response is still awaited.
func (t *trip) afterUpload() {
	switch p := t.p; {
	case p.c.HeaderTimeout <= 0:
	case p.l.Owns():
		t.limitHeaderWait()
	default:
		_ = p.l.Internal().Post(atclose.Drop, t.limitHeaderWait)
	}
}

// uploadSize is the size of the buffer for reading a body.
const uploadSize = 32 << 10

func (t *trip) copyBody() error {
	length := t.length()
	tunnels := t.tunnels()
	// The buffer has space for the head of a chunk before the data, and for its end after.
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
			if length < 0 && t.call == nil {
				head := http1.AppendChunkHead(buf[:0:before], n)
				from := before - len(head)
				copy(buf[from:], head)
				data = append(buf[from:before+n], http1.ChunkEnd...)
			}
			if err := t.write(data); err != nil {
				return err
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return t.failBody(err) // the server must not take it for complete
		}
	}
	switch {
	case t.call != nil && length >= 0 && sent < length && !tunnels:
		return t.failBody(wrongLength(length, sent))
	case t.call != nil:
		return t.endStream()
	case tunnels:
		return nil
	case length < 0:
		if err := invalidTrailer(t.req.Trailer); err != nil { // it may have been set meanwhile
			return t.failBody(err)
		}
		last, err := http1.AppendLastChunk(nil, t.req.Trailer)
		if err != nil {
			return t.failBody(err)
		}
		_, err = t.cc.conn.Write(last)
		return err
	case sent < length:
		return t.failBody(wrongLength(length, sent))
	}
	return nil
}

// write sends a piece of the body.
func (t *trip) write(data []byte) error {
	if t.call != nil {
		return t.call.write(data)
	}
	_, err := t.cc.conn.Write(data)
	return err
}

// endStream ends the body on a stream, with the trailers.
func (t *trip) endStream() error {
	if err := invalidTrailer(t.req.Trailer); err != nil { // it may have been set meanwhile
		return t.failBody(err)
	}
	trailers, err := appendTrailers(t.req.Trailer)
	if err != nil {
		return t.failBody(err)
	}
	return t.call.end(trailers)
}

// failBody closes the connection, or resets the stream, because the body cannot be sent. It sets the error first,
// so that the request fails with it.
func (t *trip) failBody(err error) error {
	t.mu.Lock()
	t.bodyErr, t.bodyFailed = err, true
	t.mu.Unlock()
	if t.call != nil {
		t.call.cancelFrom(err)
	} else {
		t.cc.close()
	}
	return err
}

// uploadGrace limits how long the connection waits for the end of the body after the end
// of the response. Then it is closed.
const uploadGrace = 50 * time.Millisecond

// finish keeps or closes the connection at the end of the response. It may be called from
// any goroutine.
func (t *trip) finish() {
	t.mu.Lock()
	keep := !t.closing && len(t.cc.rest) == 0 && t.bodyErr == nil
	waits := keep && t.sending
	t.responseDone = waits
	t.mu.Unlock()
	switch {
	case waits:
		_ = t.cc.p.l.Internal().Post(atclose.Drop, func() {
			t.cc.p.l.CallLater(uploadGrace, func() {
				t.mu.Lock()
				defer t.mu.Unlock()
				if t.sending { // the server does not read it
					t.responseDone = false
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
