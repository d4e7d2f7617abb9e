package stream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Reader reads messages out of a stream: lines, what ends at a delimiter, or so
// many bytes; and none is longer than a limit, whatever the peer sends. It is
// asyncio's StreamReader.
//
// What it returns is lent until the next call. No byte is lost: what an error has
// cut short, also a cancellation or a deadline, is still there for the next call;
// and what was read ahead comes first out of Read, so that a Reader can be handed
// on as an io.Reader.
//
// A Reader is for one task, or goroutine, at a time.
type Reader struct {
	src   io.Reader
	buf   []byte // what was read ahead is buf[at:]
	at    int
	err   error // of the source, which came with bytes: for the next call
	limit int
}

// LimitError tells that a message is longer than the Reader's limit. Nothing of it
// was consumed.
type LimitError struct {
	Limit int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("stream: message longer than %d bytes", e.Limit)
}

// IncompleteError tells that the stream has ended within a message. To errors.Is it
// is io.ErrUnexpectedEOF. Where it ends between two messages, that is io.EOF.
type IncompleteError struct {
	Partial []byte // what there was of it; the Reader has nothing left
}

func (e *IncompleteError) Error() string {
	return fmt.Sprintf("stream: the end came %d bytes into a message", len(e.Partial))
}

// Unwrap returns io.ErrUnexpectedEOF.
func (e *IncompleteError) Unwrap() error { return io.ErrUnexpectedEOF }

const (
	usualLimit = 64 << 10 // asyncio's
	firstRead  = 512
	keepBuffer = 4 << 10 // the most that is kept between messages
)

// NewReader makes a Reader of messages of at most limit bytes, delimiter included.
// A limit of zero means 64 KB.
func NewReader(src io.Reader, limit int) *Reader {
	if limit < 0 {
		panic("stream: NewReader with a negative limit")
	}
	if limit == 0 {
		limit = usualLimit
	}
	return &Reader{src: src, limit: limit}
}

// Buffered is how many bytes were read ahead.
func (r *Reader) Buffered() int { return len(r.buf) - r.at }

// Read reads what there is, as io.Reader has it, without any limit but len(p).
func (r *Reader) Read(p []byte) (int, error) {
	if r.Buffered() == 0 {
		r.drop()
		if err := r.err; err != nil {
			r.err = nil
			return 0, err
		}
		return r.src.Read(p)
	}
	n := copy(p, r.buf[r.at:])
	r.at += n
	return n, nil
}

// ReadExactly reads n bytes. More than the limit is refused with a *LimitError
// before anything is read.
func (r *Reader) ReadExactly(n int) ([]byte, error) {
	switch {
	case n < 0:
		panic("stream: ReadExactly of a negative number")
	case n > r.limit:
		return nil, &LimitError{r.limit}
	}
	for r.Buffered() < n {
		if err := r.fill(n); err != nil {
			return nil, err
		}
	}
	return r.take(n), nil
}

// ReadUntil reads up to the first delim, which is the end of what it returns. If
// there is none within the limit it fails with a *LimitError: what is there can be
// had by Read.
func (r *Reader) ReadUntil(delim []byte) ([]byte, error) {
	if len(delim) == 0 {
		panic("stream: ReadUntil without a delimiter")
	}
	for searched := 0; ; {
		have := r.buf[r.at:]
		if i := bytes.Index(have[searched:], delim); i >= 0 {
			n := searched + i + len(delim)
			if n > r.limit {
				return nil, &LimitError{r.limit}
			}
			return r.take(n), nil
		}
		if len(have) >= r.limit {
			return nil, &LimitError{r.limit}
		}
		searched = max(0, len(have)-len(delim)+1) // the delimiter may be cut in two
		if err := r.fill(len(have) + 1); err != nil {
			return nil, err
		}
	}
}

// ReadLine reads a line and returns it without its end, which is "\n" or "\r\n".
func (r *Reader) ReadLine() ([]byte, error) {
	line, err := r.ReadUntil([]byte{'\n'})
	if err != nil {
		return nil, err
	}
	line = line[:len(line)-1]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, nil
}

// take consumes n bytes.
func (r *Reader) take(n int) []byte {
	p := r.buf[r.at : r.at+n : r.at+n]
	r.at += n
	return p
}

// fill reads on, with room for a message of n bytes.
func (r *Reader) fill(n int) error {
	if r.Buffered() == 0 {
		r.drop()
	}
	if err := r.err; err != nil {
		r.err = nil
		return r.failed(err)
	}
	if len(r.buf) == cap(r.buf) || r.at+n > cap(r.buf) {
		r.makeRoom(n)
	}
	free := r.buf[len(r.buf):cap(r.buf)]
	for range 100 { // as bufio has it
		m, err := r.src.Read(free)
		if m < 0 || m > len(free) {
			panic("stream: Reader over an io.Reader that returns an impossible count")
		}
		r.buf = r.buf[:len(r.buf)+m]
		if m > 0 {
			r.err = err
			return nil
		}
		if err != nil {
			return r.failed(err)
		}
	}
	return io.ErrNoProgress
}

// makeRoom moves what is there to the beginning of a buffer that holds n bytes, and
// more, but not much more than the limit.
func (r *Reader) makeRoom(n int) {
	have := r.buf[r.at:]
	size := max(n, min(2*len(have), r.limit), firstRead)
	if size > cap(r.buf) {
		r.buf = append(make([]byte, 0, size), have...)
	} else {
		r.buf = r.buf[:copy(r.buf[:cap(r.buf)], have)]
	}
	r.at = 0
}

// drop lets go of an empty buffer that was needed for a large message.
func (r *Reader) drop() {
	r.buf, r.at = r.buf[:0], 0
	if cap(r.buf) > keepBuffer {
		r.buf = nil
	}
}

// failed is an error of the source as the caller gets it.
func (r *Reader) failed(err error) error {
	if errors.Is(err, io.EOF) && r.Buffered() > 0 {
		return &IncompleteError{bytes.Clone(r.take(r.Buffered()))}
	}
	return err
}
