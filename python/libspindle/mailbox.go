//go:build spindle_python

package main

/*
#include <stdlib.h>
#include "mailbox.h"
*/
import "C"

import "unsafe"

const (
	recordSize = int(unsafe.Sizeof(C.SpindleRecord{}))
	headSize   = int(unsafe.Sizeof(C.SpindleHead{}))
	fieldSize  = int(unsafe.Sizeof(C.SpindleField{}))
)

// inbox writes records for Python. The memory is C's, so that C can read it without
// calling Go.
type inbox struct{ to *C.SpindleBuffer }

// add reserves a record with n bytes of payload, and returns both.
func (b inbox) add(kind, flags uint16, slot uint32, payload int) (*C.SpindleRecord, []byte) {
	size := recordSize + payload
	at, end := int(b.to.len), int(b.to.len)+(size+7)&^7
	if end > int(b.to.cap) {
		b.grow(end)
	}
	b.to.len = C.size_t(end)
	start := unsafe.Add(unsafe.Pointer(b.to.data), at)
	r := (*C.SpindleRecord)(start)
	*r = C.SpindleRecord{size: C.uint32_t(size), kind: C.uint16_t(kind), flags: C.uint16_t(flags), slot: C.uint32_t(slot)}
	return r, unsafe.Slice((*byte)(unsafe.Add(start, recordSize)), payload)
}

func (b inbox) grow(least int) {
	size := max(2*int(b.to.cap), least, 64<<10)
	data := C.realloc(unsafe.Pointer(b.to.data), C.size_t(size))
	if data == nil {
		panic("libspindle: out of memory")
	}
	b.to.data, b.to.cap = (*C.char)(data), C.size_t(size)
}

// shrink frees the memory of a peak, when the buffer is empty.
func shrink(b *C.SpindleBuffer) {
	if b.len == 0 && b.cap > 1<<20 {
		C.free(unsafe.Pointer(b.data))
		*b = C.SpindleBuffer{}
	}
}

// records calls fn for every record of a buffer, and empties it. The payload is valid
// during the call.
func records(b *C.SpindleBuffer, fn func(r *C.SpindleRecord, payload []byte)) {
	for at := 0; at < int(b.len); {
		start := unsafe.Add(unsafe.Pointer(b.data), at)
		r := (*C.SpindleRecord)(start)
		fn(r, unsafe.Slice((*byte)(unsafe.Add(start, recordSize)), int(r.size)-recordSize))
		at += (int(r.size) + 7) &^ 7
	}
	b.len = 0
}

// slots hands out small numbers, and has the value of each.
type slots[T any] struct {
	values []T
	free   []uint32
}

func (s *slots[T]) add(v T) uint32 {
	if last := len(s.free) - 1; last >= 0 {
		slot := s.free[last]
		s.free = s.free[:last]
		s.values[slot] = v
		return slot
	}
	s.values = append(s.values, v)
	return uint32(len(s.values) - 1)
}

func (s *slots[T]) remove(slot uint32) {
	var zero T
	s.values[slot] = zero
	s.free = append(s.free, slot)
}
