package stream

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Reader reads messages from a stream: lines, messages that end with a delimiter, or
// a given number of bytes. No message is longer than the Reader's limit, whatever
// the peer sends: the error then matches bufio.ErrTooLong, and nothing of the message was consumed. It corresponds to asyncio's StreamReader.
//
// The returned bytes are valid until the next call. No byte is lost: after an error,
// including a cancellation or a deadline, the bytes of the partial message are still
// there for the next call. Read returns bytes that were read ahead first, so a
// Reader can be passed on as an io.Reader.
//
// A Reader must not be used by several tasks or goroutines at once.
type Reader struct {
	src   io.Reader
	buf   []byte // bytes read ahead are buf[start:]
	start int
	err   error // error that the source returned along with bytes, for the next call
	limit int
}

// tooLong is the error for a message that is longer than the limit.
type tooLong struct{ limit int }

func (e tooLong) Error() string {
	return fmt.Sprintf("stream: a message is too long: more than %d bytes", e.limit)
}

func (tooLong) Is(target error) bool { return target == bufio.ErrTooLong }

const (
	defaultLimit  = 64 << 10 // as in asyncio
	minBuffer     = 512
	maxIdleBuffer = 4 << 10 // largest buffer kept between messages
)

// NewReader returns a Reader for messages of at most limit bytes, delimiter
// included. A limit of zero means 64 KB.
func NewReader(src io.Reader, limit int) *Reader {
	if limit < 0 {
		panic("stream: NewReader with a negative limit")
	}
	if limit == 0 {
		limit = defaultLimit
	}
	return &Reader{src: src, limit: limit}
}

// Buffered returns the number of bytes read ahead.
func (r *Reader) Buffered() int { return len(r.buf) - r.start }

// Read reads up to len(p) bytes. The limit does not apply to it.
func (r *Reader) Read(p []byte) (int, error) {
	if r.Buffered() == 0 {
		r.reset()
		if err := r.err; err != nil {
			r.err = nil
			return 0, err
		}
		return r.src.Read(p)
	}
	n := copy(p, r.buf[r.start:])
	r.start += n
	return n, nil
}

// ReadExactly reads n bytes. If n exceeds the limit, it fails with an error that matches bufio.ErrTooLong
// before it reads anything. If the stream ends before, it returns the bytes that came,
// and an error that wraps io.ErrUnexpectedEOF, or io.EOF if none came.
func (r *Reader) ReadExactly(n int) ([]byte, error) {
	switch {
	case n < 0:
		panic("stream: ReadExactly of a negative number")
	case n > r.limit:
		return nil, tooLong{r.limit}
	}
	for r.Buffered() < n {
		if err := r.fill(n); err != nil {
			return r.partial(err)
		}
	}
	return r.consume(n), nil
}

// ReadUntil reads up to and including the first delim. If the limit does not
// suffice, it fails with an error that matches bufio.ErrTooLong; the bytes read so far are available through
// Read. At the end of the stream it is as ReadExactly.
func (r *Reader) ReadUntil(delim []byte) ([]byte, error) {
	if len(delim) == 0 {
		panic("stream: ReadUntil without a delimiter")
	}
	for searched := 0; ; {
		have := r.buf[r.start:]
		if i := bytes.Index(have[searched:], delim); i >= 0 {
			n := searched + i + len(delim)
			if n > r.limit {
				return nil, tooLong{r.limit}
			}
			return r.consume(n), nil
		}
		if len(have) >= r.limit {
			return nil, tooLong{r.limit}
		}
		searched = max(0, len(have)-len(delim)+1) // the delimiter may straddle two reads
		if err := r.fill(len(have) + 1); err != nil {
			return r.partial(err)
		}
	}
}

// ReadLine reads a line and returns it without its ending, "\n" or "\r\n". At the end of the
// stream it is as ReadExactly.
func (r *Reader) ReadLine() ([]byte, error) {
	line, err := r.ReadUntil([]byte{'\n'})
	if err != nil {
		return line, err
	}
	line = line[:len(line)-1]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, nil
}

// consume returns the next n bytes of the buffer and removes them.
func (r *Reader) consume(n int) []byte {
	p := r.buf[r.start : r.start+n : r.start+n]
	r.start += n
	return p
}

// fill reads more bytes into a buffer that can hold a message of n bytes.
func (r *Reader) fill(n int) error {
	if r.Buffered() == 0 {
		r.reset()
	}
	if err := r.err; err != nil {
		r.err = nil
		return err
	}
	if len(r.buf) == cap(r.buf) || r.start+n > cap(r.buf) {
		r.grow(n)
	}
	free := r.buf[len(r.buf):cap(r.buf)]
	for range 100 { // as in bufio
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
			return err
		}
	}
	return io.ErrNoProgress
}

// grow moves the buffered bytes to the start of a buffer that holds at least n
// bytes, but not much more than the limit.
func (r *Reader) grow(n int) {
	have := r.buf[r.start:]
	size := max(n, min(2*len(have), r.limit), minBuffer)
	if size > cap(r.buf) {
		r.buf = append(make([]byte, 0, size), have...)
	} else {
		r.buf = r.buf[:copy(r.buf[:cap(r.buf)], have)]
	}
	r.start = 0
}

// reset empties the buffer, and frees it if a large message made it grow.
func (r *Reader) reset() {
	r.buf, r.start = r.buf[:0], 0
	if cap(r.buf) > maxIdleBuffer {
		r.buf = nil
	}
}

// partial returns what was read of a message when reading has failed. At the end of the stream
// that is everything, and otherwise nothing: the message can be read later.
func (r *Reader) partial(err error) ([]byte, error) {
	n := r.Buffered()
	if n == 0 || !errors.Is(err, io.EOF) {
		return nil, err
	}
	return r.consume(n), fmt.Errorf("stream: the end came %d bytes into a message: %w", n, io.ErrUnexpectedEOF)
}
