package web

import (
	"testing"
	"unsafe"
)

// TestExchangeFitsItsSizeClass holds the comment at exchange: a larger object with
// pointers takes the allocator's slower path, for each request.
func TestExchangeFitsItsSizeClass(t *testing.T) {
	if size := unsafe.Sizeof(exchange{}); size > 512 {
		t.Errorf("an exchange takes %d bytes, want at most 512", size)
	}
}
