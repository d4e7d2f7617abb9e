// Package deflate compresses and inflates messages as permessage-deflate has it
// (RFC 7692): each by itself, without a context that is kept from one to the next.
//
// A writer of compress/flate takes about a megabyte and a reader 40 KB, so they are
// shared by all: a connection has one only while it compresses or inflates a
// message.
package deflate

import (
	"bytes"
	"compress/flate"
	"errors"
	"io"
	"sync"
)

// tail is what a sender leaves out at the end of a message, as all end with it,
// followed by an empty last block, so that a reader of flate finds its end.
const (
	tail = "\x00\x00\xff\xff"
	last = "\x01\x00\x00\xff\xff"
)

// ErrTooLarge says that a message inflates to more than its limit.
var ErrTooLarge = errors.New("deflate: message is too large")

// MaxWindow is the window of compress/flate, in bits.
const MaxWindow = 15

var (
	writers [flate.BestCompression + 1]sync.Pool // by level
	readers sync.Pool
)

// Append compresses p and appends it to dst. No distance in it is larger than
// window bits allow. Level is one of flate's from 1 to 9.
func Append(dst, p []byte, level, window int) []byte {
	out := &appender{dst}
	w := writer(level, out)
	// Flate's window cannot be set. But nothing refers to what was before a
	// reset, so blocks of the window's size will do.
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

// appender is a slice to write to: it cannot fail.
type appender struct{ p []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.p = append(a.p, p...)
	return len(p), nil
}

// Inflate inflates p and appends it to dst, at most limit bytes: more fails with
// ErrTooLarge, before it is there.
func Inflate(dst, p []byte, limit int) ([]byte, error) {
	r := NewReader(bytes.NewReader(p))
	defer r.Close()
	start := len(dst)
	for {
		if len(dst) == cap(dst) {
			dst = append(dst, 0)[:len(dst)]
		}
		room := dst[len(dst):cap(dst)]
		if most := limit + 1 - (len(dst) - start); len(room) > most {
			room = room[:most]
		}
		n, err := r.Read(room)
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

// Reader inflates one message.
type Reader struct {
	src   io.Reader
	ended string // what still stands in for the sender's end
	flate io.ReadCloser
}

// NewReader returns a Reader of the message that src is, compressed. Close gives
// back what it holds.
func NewReader(src io.Reader) *Reader {
	r := &Reader{src: src, ended: tail + last}
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

// Close ends the reading. It may be called again.
func (r *Reader) Close() error {
	if r.flate != nil {
		f := r.flate
		r.flate, r.src = nil, nil
		f.(flate.Resetter).Reset(nothing{}, nil)
		readers.Put(f)
	}
	return nil
}

// nothing is what a reader in the pool refers to.
type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, io.EOF }

// source is what flate reads: the message and the end that was left out.
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
	if s.ended == "" {
		return 0, io.EOF
	}
	n := copy(p, s.ended)
	s.ended = s.ended[n:]
	return n, nil
}
