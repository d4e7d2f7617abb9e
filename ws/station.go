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
	unused   []*kept
}

const (
	// mostKept is the largest buffer that is kept to be used again.
	mostKept = 64 << 10
	// mostUnused is how many of them there are for messages in pieces.
	mostUnused = 64
	// mostRules is how many kinds of Sockets share theirs before all are
	// forgotten; who has them goes on with them.
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
	r.st = st
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

// newKept is for a Socket that has something to keep; most often that is a message,
// so there may be a buffer in it.
func (st *station) newKept() *kept {
	last := len(st.unused) - 1
	if last < 0 {
		return new(kept)
	}
	k := st.unused[last]
	st.unused = st.unused[:last]
	return k
}

func (st *station) freeKept(k *kept) {
	if len(st.unused) < mostUnused {
		*k = kept{message: modest(k.message)}
		st.unused = append(st.unused, k)
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
