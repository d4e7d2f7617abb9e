package ws

import (
	"sync"

	"github.com/spindleloop/spindle/internal/wsframe"
	"github.com/spindleloop/spindle/ws/internal/deflate"
)

// Prepared is a message for many receivers. It is framed once, and compressed once
// for each set of compression parameters in use. Sockets of several loops may use it
// at once.
type Prepared struct {
	kind    Kind
	message []byte // part of plain
	plain   []byte // the uncompressed frame

	mu       sync.Mutex
	variants map[deflateParams][]byte // compressed frames; guarded by mu
}

type deflateParams struct{ level, window uint8 }

// Prepare returns a message for SendPrepared. It does not keep the slice.
func Prepare(kind Kind, message []byte) *Prepared {
	frame := wsframe.AppendFrame(make([]byte, 0, wsframe.MaxHead+len(message)), kind.op(), wsframe.Fin, message)
	return &Prepared{kind: kind, plain: frame, message: frame[len(frame)-len(message):]}
}

// compressedFrame returns the frame compressed with r's parameters.
func (m *Prepared) compressedFrame(r *rules) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	params := deflateParams{r.level, r.window}
	if frame, ok := m.variants[params]; ok {
		return frame
	}
	p := deflate.Append(nil, m.message, int(r.level), int(r.window))
	frame := wsframe.AppendFrame(make([]byte, 0, wsframe.MaxHead+len(p)), m.kind.op(), wsframe.Fin|wsframe.Compressed, p)
	if m.variants == nil {
		m.variants = make(map[deflateParams][]byte)
	}
	m.variants[params] = frame
	return frame
}
