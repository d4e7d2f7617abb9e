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

// Items are sent at once as long as no more than atOnce frames are sent in a period. Others wait for soon at most, which is
// about a millisecond when the process has nothing else to do.
const (
	period = time.Millisecond
	atOnce = 16
	soon   = 100 * time.Microsecond
)

// flow is the items of a Go function on their way to Python. The function's goroutine encodes and sends them, each in a
// frame of its own, or many in one if they come quickly.
type flow struct {
	h       *hosted
	allowed atomic.Uint32 // items that Python accepts in all
	freed   chan struct{} // has a place: Python may accept more
	item    bytes.Buffer  // the last item, for add only

	mu     sync.Mutex
	batch  []byte      // itemHead bytes, and items that were not sent; nil if there are none; guarded by mu, as all below
	items  int         // in batch
	total  uint32      // items that were added; only add changes it
	size   int         // of the last batch
	begun  time.Time   // when the period began
	frames int         // sent in the period
	late   *time.Timer // runs flush; nil before the first item that waits
}

func newFlow(h *hosted, allowed uint32) *flow {
	f := &flow{h: h, freed: make(chan struct{}, 1)}
	f.allowed.Store(allowed)
	return f
}

// allow lets more items be sent: n in all. It never waits. Only for the goroutine that reads frames.
func (f *flow) allow(n uint32) {
	if int32(n-f.allowed.Load()) > 0 { // the count begins again after 32 bits
		f.allowed.Store(n)
	}
	signal(f.freed)
}

// run sends the items of a function until the last one.
func (f *flow) run(ctx context.Context, fn *function, args []cbor.RawMessage) error {
	defer f.flush()
	return fn.stream(ctx, args, func(item any) error { return f.add(ctx, item) })
}

// add sends an item, or puts it into the batch. It waits first while Python accepts none.
func (f *flow) add(ctx context.Context, item any) error {
	for f.total == f.allowed.Load() {
		f.flush()
		select {
		case <-f.freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if err := f.encode(item); err != nil { // without mu: the item may have methods
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.items == 0 {
		f.batch = make([]byte, itemHead, max(itemHead+f.item.Len(), f.size+f.size/4))
	}
	f.batch = append(f.batch, f.item.Bytes()...)
	f.items++
	f.total++
	if added := now(); added.Sub(f.begun) >= period {
		f.begun, f.frames = added, 0
	}
	if f.frames < atOnce || len(f.batch) >= maxBatch {
		f.send()
	} else if f.items == 1 {
		f.sendLate()
	}
	return context.Cause(ctx)
}

// encode encodes an item.
func (f *flow) encode(item any) error {
	f.item.Reset()
	if err := encoding.MarshalToBuffer(item, &f.item); err != nil {
		return locateEncoding(fmt.Sprintf("items[%d]", f.total), reflect.ValueOf(item), err)
	}
	if n, limit := f.item.Len(), f.h.w.a.maxCallBytes(); n > limit {
		return fmt.Errorf("items[%d] has %d bytes; MaxCallBytes is %d", f.total, n, limit)
	}
	return nil
}

// send sends the batch, if it has items. It waits while the worker does not read, even if the call is over: then nothing is lost.
func (f *flow) send() {
	if f.items == 0 {
		return
	}
	batch := f.batch
	fillHead(batch, f.h.id, f.total, f.items)
	f.batch, f.items, f.size = nil, 0, len(batch)
	f.frames++
	_ = f.h.w.out.put(f.h.w.life, frame{head: batch}) // fails only if the worker ends
}

// sendLate schedules a flush.
func (f *flow) sendLate() {
	if f.late == nil {
		f.late = after(soon, f.flush)
	} else {
		f.late.Reset(soon)
	}
}

// flush locks mu and sends the batch.
func (f *flow) flush() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.send()
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
