package pyapp

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fxamacker/cbor/v2"
	frames "github.com/spindleloop/spindle/internal/frame"
	"github.com/spindleloop/spindle/relay"
)

// window is how many items of a stream may be on the way.
const window = 256

// maxBatch is the size from which the items of a frame are sent without waiting for more.
const maxBatch = 64 << 10

// soon is how long an item may wait for others, if it comes this soon after the one before.
const soon = 100 * time.Microsecond

// flow is the items of a Go function on their way to Python. The function's goroutine encodes and sends them. Items
// that come slowly are sent one by one, at once. Quick ones share a frame, which is sent when it is full, when Python accepts no more, or soon.
type flow struct {
	h       *hosted
	allowed atomic.Uint32 // items that Python accepts in all
	freed   chan struct{} // has a place: Python may accept more

	mu    sync.Mutex
	batch *bytes.Buffer // itemHead bytes, and items that were not sent; nil if there are none; guarded by mu, as all below
	items int           // in batch
	total uint32        // items that were added
	size  int           // of the last batch
	last  time.Time     // when the last item was added
	late  *time.Timer   // sends the batch; nil before the first one that waits
}

func newFlow(h *hosted, allowed uint32) *flow {
	f := &flow{h: h, freed: make(chan struct{}, 1)}
	f.allowed.Store(allowed)
	return f
}

// allow lets more items be sent: n in all. It never waits. Only for the goroutine that reads frames.
func (f *flow) allow(n uint32) {
	if int32(n-f.allowed.Load()) > 0 { // they may begin again from 0
		f.allowed.Store(n)
	}
	signal(f.freed)
}

// run sends the items of a function until the last one.
func (f *flow) run(ctx context.Context, fn *function, args []cbor.RawMessage) error {
	defer f.flush(ctx)
	return fn.stream(ctx, args, func(item any) error { return f.add(ctx, item) })
}

// add sends an item, or puts it into the batch. It waits first while Python accepts none.
func (f *flow) add(ctx context.Context, item any) error {
	for f.total == f.allowed.Load() {
		f.flush(ctx)
		select {
		case <-f.freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.encode(item); err != nil {
		return err
	}
	f.items++
	f.total++
	added := now()
	slow := added.Sub(f.last) >= soon
	f.last = added
	if slow || f.batch.Len() >= maxBatch {
		f.send(ctx)
	} else if f.items == 1 {
		f.sendLate(ctx)
	}
	return context.Cause(ctx)
}

// encode appends an item to the batch, or nothing if it fails.
func (f *flow) encode(item any) error {
	if f.batch == nil {
		f.batch = bytes.NewBuffer(make([]byte, itemHead, 512+f.size+f.size/4))
	}
	before, fits := f.batch.Len(), false
	defer func() { // even if a method of the item panics
		if !fits {
			f.batch.Truncate(before)
		}
	}()
	if err := encoding.MarshalToBuffer(item, f.batch); err != nil {
		return locateEncoding(fmt.Sprintf("items[%d]", f.total), reflect.ValueOf(item), err)
	}
	n, limit := f.batch.Len()-before, f.h.w.a.maxCallBytes()
	if n > limit {
		return fmt.Errorf("items[%d] has %d bytes; MaxCallBytes is %d", f.total, n, limit)
	}
	fits = true
	return nil
}

// send sends the batch, if it has items. It waits while the process does not read; if ctx ends meanwhile, the batch is dropped.
func (f *flow) send(ctx context.Context) {
	if f.items == 0 {
		return
	}
	batch := f.batch.Bytes()
	fillHead(batch, f.h.id, f.total, f.items)
	f.batch, f.items, f.size = nil, 0, len(batch)
	_ = f.h.w.out.put(ctx, frame{head: batch}) // if the process ends, ctx does too
}

// sendLate makes the batch be sent soon.
func (f *flow) sendLate(ctx context.Context) {
	if f.late == nil {
		f.late = after(soon, func() { f.flush(ctx) })
	} else {
		f.late.Reset(soon)
	}
}

// flush is send for a caller without mu.
func (f *flow) flush(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.send(ctx)
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
