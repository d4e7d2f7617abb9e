package peers_test

import (
	"runtime"
	"testing"

	_ "github.com/spindleloop/spindle/bench/peers"
)

// The garbage collector of every server scans what the packages of all others allocate
// when they are initialized.
func TestLinkedPeersLeaveTheHeapSmall(t *testing.T) {
	const most = 768 << 10
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > most {
		t.Errorf("%d bytes are in use before any server is started, more than %d", m.HeapAlloc, most)
	}
	t.Logf("%d bytes", m.HeapAlloc)
}
