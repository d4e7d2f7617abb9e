package web_test

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/spindleloop/spindle/web"
)

// TestLargeBodiesUseTheSameMemory: a body that comes faster than it is read does not allocate all that it has.
func TestLargeBodiesUseTheSameMemory(t *testing.T) {
	const bodies, size = 50, 256 << 10
	frames := make([][]byte, 16)
	for i := range frames {
		frames[i] = make([]byte, size/len(frames))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range bodies {
		web.ReceiveBody(frames...)
	}
	runtime.ReadMemStats(&after)
	// What Hijack takes is a copy. Growth of a slice by itself would be another 1.3 MB.
	if each := int(after.TotalAlloc-before.TotalAlloc) / bodies; each > 3*size {
		t.Errorf("a body of %d bytes has allocated %d", size, each)
	}
}

// TestHijackedBodyStaysAsItIs: other bodies do not use the memory of what Hijack has taken.
func TestHijackedBodyStaysAsItIs(t *testing.T) {
	first, second := bytes.Repeat([]byte("a"), 50<<10), bytes.Repeat([]byte("b"), 50<<10)
	got := web.ReceiveBody(first, second)
	for range 10 {
		web.ReceiveBody(second, second, second)
	}
	if want := append(first, second...); !bytes.Equal(got, want) {
		t.Error("the bytes have changed")
	}
}
