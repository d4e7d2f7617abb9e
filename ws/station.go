package ws

import (
	"encoding/binary"

	"github.com/spindleloop/spindle/internal/deflate"
	"github.com/spindleloop/spindle/internal/wsframe"
	"github.com/spindleloop/spindle/loop"
)

// station is what the Sockets of one loop share: room for what they do, as they do
// it one at a time.
type station struct {
	l        *loop.Loop
	rules    map[rules]*rules
	head     [wsframe.MaxHead]byte
	control  [wsframe.MaxControl]byte
	bufs     [2][]byte
	frame    []byte // a client's, masked
	packed   []byte // a message compressed
	inflated []byte // a message inflated
	parts    []*part
}

// part is a message that comes in pieces.
type part struct{ bytes []byte }

const (
	// mostKept is the largest buffer that is kept to be used again.
	mostKept = 64 << 10
	// mostParts is how many buffers are kept.
	mostParts = 64
	// mostRules is how many kinds of Sockets are told apart before the oldest
	// are forgotten; those go on with what they have.
	mostRules = 64
)

type stationKey struct{}

func stationOf(l *loop.Loop) *station {
	if st, ok := l.Local(stationKey{}).(*station); ok {
		return st
	}
	st := &station{l: l, rules: make(map[rules]*rules)}
	l.SetLocal(stationKey{}, st)
	return st
}

// share is the same rules as r, which others may have too.
func (st *station) share(r *rules) *rules {
	if known := st.rules[*r]; known != nil {
		return known
	}
	if len(st.rules) == mostRules {
		clear(st.rules)
	}
	st.rules[*r] = r
	return r
}

// key is a client's for one frame.
func (st *station) key() (k wsframe.Key) {
	binary.LittleEndian.PutUint32(k[:], uint32(st.l.Kernel().Uint64()))
	return k
}

func (st *station) newPart() *part {
	last := len(st.parts) - 1
	if last < 0 {
		return new(part)
	}
	p := st.parts[last]
	st.parts = st.parts[:last]
	return p
}

func (st *station) freePart(p *part) {
	p.bytes = modest(p.bytes)
	if len(st.parts) < mostParts && p.bytes != nil {
		st.parts = append(st.parts, p)
	}
}

// modest is an empty buffer to use again, or nil if it is too large for that.
func modest(p []byte) []byte {
	if cap(p) > mostKept {
		return nil
	}
	return p[:0]
}

// inflate is a message inflated, lent until the next call.
func (st *station) inflate(p []byte, limit int) ([]byte, error) {
	out, err := deflate.Inflate(modest(st.inflated), p, limit)
	if err == nil {
		st.inflated = out
	}
	return out, err
}
