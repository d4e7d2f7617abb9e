package ws

import (
	"sync"

	"github.com/spindleloop/spindle/internal/deflate"
	"github.com/spindleloop/spindle/internal/wsframe"
)

// Prepared is a message that is sent to many: it is framed once, and compressed
// once if anybody takes it so. It may be used by Sockets of several loops at once.
type Prepared struct {
	kind    Kind
	message []byte // within plain
	plain   []byte // the frame

	mu     sync.Mutex
	packed map[packing][]byte // frames; guarded by mu
}

type packing struct{ level, window uint8 }

// Prepare makes a message ready to be sent by SendPrepared. The slice is the
// caller's again when it returns.
func Prepare(kind Kind, message []byte) *Prepared {
	frame := wsframe.AppendFrame(make([]byte, 0, wsframe.MaxHead+len(message)), kind.op(), wsframe.Fin, message)
	return &Prepared{kind: kind, plain: frame, message: frame[len(frame)-len(message):]}
}

// compressed is the frame as r has it.
func (m *Prepared) compressed(r *rules) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	how := packing{r.level, r.window}
	if frame, ok := m.packed[how]; ok {
		return frame
	}
	p := deflate.Append(nil, m.message, int(r.level), int(r.window))
	frame := wsframe.AppendFrame(make([]byte, 0, wsframe.MaxHead+len(p)), m.kind.op(), wsframe.Fin|wsframe.Compressed, p)
	if m.packed == nil {
		m.packed = make(map[packing][]byte)
	}
	m.packed[how] = frame
	return frame
}
