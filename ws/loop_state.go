package ws

import (
	"encoding/binary"

	"github.com/spindleloop/spindle/internal/perloop"
	"github.com/spindleloop/spindle/internal/wsframe"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/ws/internal/deflate"
)

// loopState holds the buffers that the Sockets of one loop share. They use them one
// at a time. Loop goroutine only.
type loopState struct {
	l          *loop.Loop
	rules      map[rules]*rules
	head       [wsframe.MaxHead]byte
	control    [wsframe.MaxControl]byte
	bufs       [2][]byte
	frame      []byte // a client's masked frame
	compressed []byte // a compressed message
	inflated   []byte // an inflated message
	freeExtras []*socketExtra
}

const (
	// maxReusableBuffer is the size of the largest buffer kept for reuse.
	maxReusableBuffer = 64 << 10
	// maxFreeExtras is the number of free socketExtras kept for reuse.
	maxFreeExtras = 64
	// maxSharedRules is the number of distinct rules kept for sharing before all are
	// dropped. Sockets keep the rules they have.
	maxSharedRules = 64
)

var loopStates perloop.Values[loopState]

func loopStateOf(l *loop.Loop) *loopState {
	return loopStates.Get(l, func() *loopState {
		return &loopState{l: l, rules: make(map[rules]*rules)}
	})
}

// share returns rules equal to r that other Sockets may use as well.
func (st *loopState) share(r *rules) *rules {
	r.st = st
	if known := st.rules[*r]; known != nil {
		return known
	}
	if len(st.rules) == maxSharedRules {
		clear(st.rules)
	}
	st.rules[*r] = r
	return r
}

// maskKey returns a client's masking key for one frame.
func (st *loopState) maskKey() (k wsframe.Key) {
	binary.LittleEndian.PutUint32(k[:], uint32(st.l.Internal().Kernel().Uint64()))
	return k
}

// getExtra returns an empty socketExtra. Most Sockets need it for a message, so it
// may come with a buffer for one.
func (st *loopState) getExtra() *socketExtra {
	last := len(st.freeExtras) - 1
	if last < 0 {
		return new(socketExtra)
	}
	k := st.freeExtras[last]
	st.freeExtras = st.freeExtras[:last]
	return k
}

func (st *loopState) putExtra(k *socketExtra) {
	if len(st.freeExtras) < maxFreeExtras {
		*k = socketExtra{message: reusable(k.message)}
		st.freeExtras = append(st.freeExtras, k)
	}
}

// reusable returns p emptied for reuse, or nil if p is too large to keep.
func reusable(p []byte) []byte {
	if cap(p) > maxReusableBuffer {
		return nil
	}
	return p[:0]
}

// inflate returns an inflated message, which is valid until the next call.
func (st *loopState) inflate(p []byte, limit int) ([]byte, error) {
	out, err := deflate.Inflate(reusable(st.inflated), p, limit)
	if err == nil {
		st.inflated = out
	}
	return out, err
}
