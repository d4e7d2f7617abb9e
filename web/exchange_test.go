package web

import (
	"testing"
	"unsafe"
)

// TestExchangeFitsItsSizeClass checks that an exchange and the allocator's header of 8
// bytes fit into 704 bytes. The next size class has 768.
func TestExchangeFitsItsSizeClass(t *testing.T) {
	if size := unsafe.Sizeof(exchange{}); size > 704-8 {
		t.Errorf("an exchange takes %d bytes, want at most %d", size, 704-8)
	}
}
