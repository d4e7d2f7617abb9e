package pyapp

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/spindleloop/spindle/cosync"
	frames "github.com/spindleloop/spindle/internal/frame"
	"github.com/spindleloop/spindle/relay"
)

// frame is a frame for a worker: its head, and its body, which may be large and is not copied.
type frame struct {
	head, body []byte
	accepted   *accepted // a connection that the worker gets before the frame; nil for most
}

// newFrame returns a frame of package relay with a body.
func newFrame(e *relay.Envelope, body []byte) (frame, error) {
	small := len(body) < 4<<10
	if small {
		e.Body = body
	}
	head, err := frames.AppendShort(nil, e)
	if err != nil || small {
		return frame{head: head}, err
	}
	all := uint64(binary.BigEndian.Uint32(head)) + uint64(len(body))
	if all > 1<<31 {
		return frame{}, relay.ErrTooLarge
	}
	binary.BigEndian.PutUint32(head, uint32(all))
	return frame{head: head, body: body}, nil
}

// write writes the frames that are in w.out, those that are there together, until the process ends.
func (w *worker) write(ctx context.Context) error {
	const atOnce = 64
	var parts [][]byte
	for f, err := range w.out.All(ctx) {
		if err != nil {
			return err
		}
		for n := 1; err == nil; n++ {
			if f.accepted != nil {
				if !w.flush(&parts) { // the process takes earlier connections when it has their frames
					return nil
				}
				if !w.pass(ctx, f.accepted) {
					f = frame{}
				}
			}
			parts = append(parts, f.head)
			if f.body != nil {
				parts = append(parts, f.body)
			}
			if n == atOnce {
				break
			}
			f, err = w.out.TryGet()
		}
		if !w.flush(&parts) {
			return nil
		}
	}
	return nil
}

// flush writes parts of frames, and empties parts. It reports false if the process ends.
func (w *worker) flush(parts *[][]byte) bool {
	if len(*parts) == 0 {
		return true
	}
	_, err := w.process.Stdin.Writev(*parts)
	clear(*parts)
	*parts = (*parts)[:0]
	return err == nil
}

// writeLate passes the frames of w.late on.
func (w *worker) writeLate(ctx context.Context) error {
	for f, err := range w.late.All(ctx) {
		if err != nil {
			return err
		}
		if err := w.out.Put(ctx, f); errors.Is(err, cosync.ErrClosed) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}
