package pyapp

import (
	"encoding/binary"

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
	small := len(body) < large // copying is quicker than waking the goroutine that writes large ones
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
