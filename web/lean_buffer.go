package web

import "sync"

// keepLean is the largest buffer that is kept for the next lean response.
const keepLean = 64 << 10

// leanBuffers has buffers for large bodies of requests, and of lean responses, because fresh memory
// costs more than what is copied to it. Each class is twice the one before: a body that
// grows is copied rarely, and one that was only announced has no memory.
var leanBuffers [5]sync.Pool // of *[]byte

const leanClass = 2

// takeLean returns a buffer for n bytes, nil if they are too many to keep.
func takeLean(n int) []byte {
	size := keepLean
	for i := range leanBuffers {
		if size *= leanClass; n > size {
			continue
		}
		if b, ok := leanBuffers[i].Get().(*[]byte); ok {
			return *b
		}
		return make([]byte, 0, size)
	}
	return nil
}

// giveLean keeps a buffer of takeLean for others.
func giveLean(b []byte) {
	size := keepLean
	for i := range leanBuffers {
		if size *= leanClass; cap(b) == size {
			b = b[:0]
			leanBuffers[i].Put(&b)
			return
		}
	}
}

// appendLean appends p to b, which the caller owns.
func appendLean[T []byte | string](b []byte, p T) []byte {
	n := len(b) + len(p)
	if n <= max(cap(b), keepLean) {
		return append(b, p...)
	}
	larger := takeLean(n)
	if larger == nil {
		return append(b, p...)
	}
	larger = append(append(larger, b...), p...)
	giveLean(b)
	return larger
}
