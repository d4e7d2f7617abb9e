// Package deflate compresses and inflates messages for permessage-deflate (RFC 7692).
// Each message is compressed independently: no context is kept from one to the next.
//
// A writer of compress/flate takes about a megabyte and a reader 40 KB, so they are
// pooled. A connection has one only while it compresses or inflates a message.
package deflate

import (
	"bytes"
	"compress/flate"
	"errors"
	"io"
	"sync"
)

const (
	// tail is the end of every compressed message. The sender omits it.
	tail = "\x00\x00\xff\xff"
	// finalBlock is an empty final block. It follows tail, so that the flate
	// reader finds the end.
	finalBlock = "\x01\x00\x00\xff\xff"
)

// ErrTooLarge is returned for a message that inflates to more than its limit.
var ErrTooLarge = errors.New("deflate: message is too large")

// MaxWindow is the window size of compress/flate, in bits.
const MaxWindow = 15

var (
	writers [flate.BestCompression + 1]sync.Pool // by level
	readers sync.Pool
)

// Append compresses p and appends it to dst. No distance in the result is larger than
// a window of window bits. Level is a level of flate, from 1 to 9.
func Append(dst, p []byte, level, window int) []byte {
	out := &appender{dst}
	w := writer(level, out)
	// The window of flate cannot be set. But no block refers to data before a
	// reset, so resetting after each window's size of data has the same effect.
	block := 1 << window
	for window < MaxWindow && len(p) > block {
		w.Write(p[:block])
		w.Flush()
		w.Reset(out)
		p = p[block:]
	}
	w.Write(p)
	w.Flush()
	release(w, level)
	return out.p[:len(out.p)-len(tail)]
}

func writer(level int, out io.Writer) *flate.Writer {
	if w, ok := writers[level].Get().(*flate.Writer); ok {
		w.Reset(out)
		return w
	}
	w, err := flate.NewWriter(out, level)
	if err != nil {
		panic("deflate: " + err.Error())
	}
	return w
}

func release(w *flate.Writer, level int) {
	w.Reset(nil)
	writers[level].Put(w)
}

// appender is an io.Writer that appends to a slice. It never fails.
type appender struct{ p []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.p = append(a.p, p...)
	return len(p), nil
}

// Inflate inflates p and appends it to dst. It fails with ErrTooLarge if the result
// has more than limit bytes, without producing them.
func Inflate(dst, p []byte, limit int) ([]byte, error) {
	r := NewReader(bytes.NewReader(p))
	defer r.Close()
	start := len(dst)
	for {
		if len(dst) == cap(dst) {
			dst = append(dst, 0)[:len(dst)]
		}
		free := dst[len(dst):cap(dst)]
		if most := limit + 1 - (len(dst) - start); len(free) > most {
			free = free[:most]
		}
		n, err := r.Read(free)
		dst = dst[:len(dst)+n]
		if len(dst)-start > limit {
			return dst[:start], ErrTooLarge
		}
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst[:start], err
		}
	}
}

// Exceeds reports whether p, the beginning of a compressed message, inflates to more than
// limit bytes. The last bytes of p may not count, because what follows them is not known.
func Exceeds(p []byte, limit int) bool {
	if len(p) <= limit/maxRatio {
		return false
	}
	r := newReader(bytes.NewReader(p), "")
	defer r.Close()
	buf := make([]byte, 4<<10)
	for size := 0; ; {
		n, err := r.Read(buf)
		if size += n; size > limit {
			return true
		}
		if err != nil {
			return false
		}
	}
}

// maxRatio is how many times larger than the compressed bytes the inflated ones can be.
const maxRatio = 1032

// Reader inflates one message.
type Reader struct {
	src   io.Reader
	end   string // the part of the omitted end that flate has not read yet
	flate io.ReadCloser
}

// NewReader returns a Reader of the compressed message in src. Close returns its
// memory to the pool.
func NewReader(src io.Reader) *Reader { return newReader(src, tail+finalBlock) }

func newReader(src io.Reader, end string) *Reader {
	r := &Reader{src: src, end: end}
	if f, ok := readers.Get().(io.ReadCloser); ok {
		f.(flate.Resetter).Reset((*source)(r), nil)
		r.flate = f
	} else {
		r.flate = flate.NewReader((*source)(r))
	}
	return r
}

// Read reads inflated bytes.
func (r *Reader) Read(p []byte) (int, error) {
	if r.flate == nil {
		return 0, io.ErrClosedPipe
	}
	return r.flate.Read(p)
}

// Close closes the Reader. It may be called again.
func (r *Reader) Close() error {
	if r.flate != nil {
		f := r.flate
		r.flate, r.src = nil, nil
		f.(flate.Resetter).Reset(emptyReader{}, nil)
		readers.Put(f)
	}
	return nil
}

// emptyReader is the source of a flate reader in the pool.
type emptyReader struct{}

func (emptyReader) Read([]byte) (int, error) { return 0, io.EOF }

// source is the source of a flate reader in use: the message and its omitted end.
type source Reader

func (s *source) Read(p []byte) (int, error) {
	if s.src != nil {
		n, err := s.src.Read(p)
		if err != io.EOF {
			return n, err
		}
		s.src = nil
		if n > 0 {
			return n, nil
		}
	}
	if s.end == "" {
		return 0, io.EOF
	}
	n := copy(p, s.end)
	s.end = s.end[n:]
	return n, nil
}
