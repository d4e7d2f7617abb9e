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
type frame struct{ head, body []byte }

// newFrame returns a frame of package relay with a body.
func newFrame(e *relay.Envelope, body []byte) (frame, error) {
	small := len(body) < 4<<10
	if small {
		e.Body = body
	}
	head, err := frames.Append(nil, e)
	if err != nil || small {
		return frame{head: head}, err
	}
	all := uint64(binary.BigEndian.Uint32(head)) + uint64(len(body))
	if all > 1<<31 {
		return frame{}, relay.ErrTooLarge
	}
	binary.BigEndian.PutUint32(head, uint32(all))
	return frame{head, body}, nil
}

// write writes the frames that are in w.out, those that are there together, until the process ends.
func (w *worker) write(ctx context.Context) error {
	const atOnce = 64
	var parts [][]byte
	for f, err := range w.out.All(ctx) {
		if err != nil {
			return err
		}
		parts = append(parts[:0], f.head)
		for n := 1; ; n++ {
			if f.body != nil {
				parts = append(parts, f.body)
			}
			if n == atOnce {
				break
			}
			if f, err = w.out.TryGet(); err != nil {
				break
			}
			parts = append(parts, f.head)
		}
		if _, err := w.process.Stdin.Writev(parts); err != nil {
			return nil // it ends
		}
		clear(parts)
	}
	return nil
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
