package pyapp

import (
	"context"
	"encoding/binary"
	"sync"

	"github.com/fxamacker/cbor/v2"
	frames "github.com/spindleloop/spindle/internal/frame"
	"github.com/spindleloop/spindle/relay"
)

// window is how many items of a stream may be on the way.
const window = 256

// maxBatch is the size from which the items of a frame are sent without waiting for more.
const maxBatch = 64 << 10

// flow is the items of a Go function on their way to Python. The function's goroutine adds
// items, and another one sends what there is, many items in a frame if they come quickly.
type flow struct {
	h     *hosted
	added chan struct{} // has a place: there may be items
	freed chan struct{} // has a place: an item may fit

	mu      sync.Mutex
	batch   []byte // itemHead bytes, and items that were not sent; guarded by mu, as all below
	items   int    // in batch
	total   uint32 // items that were added
	allowed uint32 // items that Python accepts in all
}

func newFlow(h *hosted, allowed uint32) *flow {
	return &flow{h: h, allowed: allowed, added: make(chan struct{}, 1), freed: make(chan struct{}, 1)}
}

// run sends the items of a function until the last one.
func (f *flow) run(ctx context.Context, fn *function, args []cbor.RawMessage) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(done)
		f.sendAll(ended)
	}()
	defer func() { <-done }()
	defer close(ended)
	return fn.stream(ctx, args, func(item []byte) error { return f.add(ctx, item) })
}

// add adds an item, and waits first while Python accepts none.
func (f *flow) add(ctx context.Context, item []byte) error {
	for {
		f.mu.Lock()
		fits := f.total < f.allowed && len(f.batch) < maxBatch
		if fits {
			if f.items == 0 {
				f.batch = make([]byte, itemHead, itemHead+len(item))
			}
			f.batch = append(f.batch, item...)
			f.items++
			f.total++
		}
		f.mu.Unlock()
		if fits {
			signal(f.added)
			return context.Cause(ctx)
		}
		select {
		case <-f.freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// allow lets more items be sent: n in all.
func (f *flow) allow(n uint32) {
	f.mu.Lock()
	f.allowed = max(f.allowed, n)
	f.mu.Unlock()
	signal(f.freed)
}

// sendAll sends batches until ended is closed and nothing is left.
func (f *flow) sendAll(ended chan struct{}) {
	for last := false; !last; {
		select {
		case <-f.added:
		case <-ended:
			last = true
		}
		f.mu.Lock()
		batch, items, total := f.batch, f.items, f.total
		f.batch, f.items = nil, 0
		f.mu.Unlock()
		if items > 0 {
			signal(f.freed)
			fillHead(batch, f.h.id, total, items)
			_ = f.h.w.out.put(f.h.w.life, frame{head: batch})
		}
	}
}

// itemHead is how many bytes of a frame are before its items: its header, and the beginning of an array.
const itemHead = frames.ShortSize + 5

// fillHead fills the beginning of a frame of items, so that they need not be copied behind it.
func fillHead(b []byte, id uint64, total uint32, items int) {
	const array, long = 4 << 5, 26
	head, err := frames.AppendShort(b[:0:itemHead], &relay.Envelope{Kind: relay.KindItem, ID: id, Seq: total})
	if err != nil || len(head) != frames.ShortSize {
		panic("pyapp: a header of items") // its size is that of all short headers without texts
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	b[frames.ShortSize] = array | long
	binary.BigEndian.PutUint32(b[frames.ShortSize+1:], uint32(items))
}

// signal puts a signal into a channel unless there is one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
