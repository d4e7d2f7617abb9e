package stream_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/stream"
)

// TestReader reads messages of every kind, in chunks of all sizes.
func TestReader(t *testing.T) {
	const text = "first line\r\nsecond\n\n12345until--and more--tail"
	sources := map[string]func() io.Reader{
		"at once":       func() io.Reader { return strings.NewReader(text) },
		"byte by byte":  func() io.Reader { return iotest.OneByteReader(strings.NewReader(text)) },
		"half by half":  func() io.Reader { return iotest.HalfReader(strings.NewReader(text)) },
		"end with data": func() io.Reader { return iotest.DataErrReader(strings.NewReader(text)) },
	}
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			r := stream.NewReader(source(), 20)
			expect := func(what, want string, read func() ([]byte, error)) {
				t.Helper()
				if got, err := read(); string(got) != want || err != nil {
					t.Errorf("%s: %q, %v, want %q", what, got, err, want)
				}
			}
			until := func(delim string) func() ([]byte, error) {
				return func() ([]byte, error) { return r.ReadUntil([]byte(delim)) }
			}
			expect("ReadLine", "first line", r.ReadLine)
			expect("ReadLine", "second", r.ReadLine)
			expect("ReadLine", "", r.ReadLine)
			expect("ReadExactly", "", func() ([]byte, error) { return r.ReadExactly(0) })
			expect("ReadExactly", "12345", func() ([]byte, error) { return r.ReadExactly(5) })
			expect("ReadUntil", "until--", until("--"))
			expect("ReadUntil", "and more--", until("--"))
			if tail, err := r.ReadUntil([]byte("--")); string(tail) != "tail" || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("at the end: %q, %v", tail, err)
			}
			for _, read := range []func() ([]byte, error){r.ReadLine, until("x"), func() ([]byte, error) { return r.ReadExactly(1) }} {
				if _, err := read(); err != io.EOF {
					t.Errorf("after the end: %v", err)
				}
			}
		})
	}
}

// TestReaderLimit checks that a message over the limit fails and that no byte is
// lost.
func TestReaderLimit(t *testing.T) {
	for _, source := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader} {
		r := stream.NewReader(source(strings.NewReader("1234567\n12345678\nrest")), 8)
		if line, err := r.ReadLine(); string(line) != "1234567" || err != nil {
			t.Errorf("message of the limit's length: %q, %v", line, err)
		}
		for range 2 { // repeatedly
			if _, err := r.ReadLine(); !errors.Is(err, bufio.ErrTooLong) || !strings.Contains(err.Error(), "8 bytes") {
				t.Errorf("longer: %v", err)
			}
		}
		if _, err := r.ReadExactly(9); !errors.Is(err, bufio.ErrTooLong) {
			t.Errorf("ReadExactly: %v", err)
		}
		if p, err := r.ReadExactly(8); string(p) != "12345678" || err != nil {
			t.Errorf("%q, %v", p, err)
		}
		if rest, err := io.ReadAll(r); string(rest) != "\nrest" || err != nil {
			t.Errorf("%q, %v", rest, err)
		}
	}
	long := strings.Repeat("x", 64<<10)
	r := stream.NewReader(strings.NewReader(long[1:]+"\n"+long+"\n"), 0)
	if line, err := r.ReadLine(); len(line) != len(long)-1 || err != nil {
		t.Errorf("%d, %v", len(line), err)
	}
	if _, err := r.ReadLine(); err == nil {
		t.Error("longer than the default limit")
	}
}

// TestReaderResumesAfterError checks that a temporary error changes nothing.
func TestReaderResumesAfterError(t *testing.T) {
	on(t, func(t *testing.T, ctx context.Context) {
		a, b := pair(t, ctx, "tcp")
		r := stream.NewReader(a, 0)
		write := func(text string) {
			_, err := b.Write([]byte(text))
			check(t, err)
		}
		write("half a ")
		late, err := spindle.MoveOnAfter(ctx, time.Millisecond, func(ctx context.Context) error {
			_, err := r.ReadLine()
			return err
		})
		if !late || err != nil {
			t.Errorf("%v, %v", late, err)
		}
		check(t, a.SetReadDeadline(time.Unix(1, 0)))
		if _, err := r.ReadExactly(30); err == nil {
			t.Error("no deadline")
		}
		check(t, a.SetReadDeadline(time.Time{}))
		write("line\nnext")
		if line, err := r.ReadLine(); string(line) != "half a line" || err != nil {
			t.Errorf("%q, %v", line, err)
		}
		if n := r.Buffered(); n != 4 {
			t.Errorf("%d bytes buffered", n)
		}
		b.Close()
		if _, err := r.ReadLine(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%v", err)
		}
	})
}

// TestReaderErrorWithBytes checks that an error returned along with bytes is
// reported after them, once.
func TestReaderErrorWithBytes(t *testing.T) {
	broken := errors.New("broken")
	source := io.MultiReader(&both{[]byte("ab"), broken}, strings.NewReader("c\n"))
	r := stream.NewReader(source, 0)
	if _, err := r.ReadLine(); err != broken {
		t.Errorf("%v", err)
	}
	if line, err := r.ReadLine(); string(line) != "abc" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
	r = stream.NewReader(&both{[]byte("ab"), broken}, 0)
	p, _ := r.ReadExactly(1)
	if n, err := r.Read(make([]byte, 5)); string(p) != "a" || n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := r.Read(make([]byte, 5)); n != 0 || err != broken {
		t.Errorf("%d, %v", n, err)
	}
}

// both returns bytes together with an error, and then io.EOF.
type both struct {
	p   []byte
	err error
}

func (b *both) Read(p []byte) (int, error) {
	n, err := copy(p, b.p), b.err
	b.p, b.err = b.p[n:], io.EOF
	return n, err
}

// TestReaderMisuse checks the panic messages, and a source that makes no progress.
func TestReaderMisuse(t *testing.T) {
	r := stream.NewReader(strings.NewReader(""), 0)
	for text, call := range map[string]func(){
		"stream: NewReader with a negative limit":  func() { stream.NewReader(nil, -1) },
		"stream: ReadExactly of a negative number": func() { r.ReadExactly(-1) },
		"stream: ReadUntil without a delimiter":    func() { r.ReadUntil(nil) },
	} {
		func() {
			defer func() {
				if v := recover(); v != text {
					t.Errorf("panic %v, want %q", v, text)
				}
			}()
			call()
		}()
	}
	if _, err := stream.NewReader(idler{}, 0).ReadLine(); err != io.ErrNoProgress {
		t.Errorf("%v", err)
	}
}

type idler struct{}

func (idler) Read([]byte) (int, error) { return 0, nil }

// FuzzReader compares a Reader with a model: all the bytes in one slice.
func FuzzReader(f *testing.F) {
	f.Add([]byte("a\nbc--d\n"), []byte{0, 1, 2, 3, 9, 200}, byte(5))
	f.Fuzz(func(t *testing.T, data, calls []byte, limit byte) {
		most := int(limit)%40 + 1
		r := stream.NewReader(iotest.HalfReader(iotest.DataErrReader(bytes.NewReader(data))), most)
		rest := data
		for _, call := range calls {
			n := -1 // length of the message in the model; -1 for none
			var got []byte
			var err error
			switch n2 := int(call) / 4; call % 4 {
			case 0:
				got, err = r.ReadUntil([]byte{'\n'})
				if i := bytes.IndexByte(rest, '\n'); i >= 0 {
					n = i + 1
				}
			case 1:
				got, err = r.ReadUntil([]byte("--"))
				if i := bytes.Index(rest, []byte("--")); i >= 0 {
					n = i + 2
				}
			case 2:
				got, err = r.ReadExactly(n2)
				if n = n2; n > len(rest) && n <= most {
					n = -1
				}
			case 3:
				got = make([]byte, n2+1) // DataErrReader hangs on an empty Read
				m, e := r.Read(got)
				if !bytes.HasPrefix(rest, got[:m]) || e != nil && e != io.EOF {
					t.Fatalf("Read: %q, %v of %q", got[:m], e, rest)
				}
				rest = rest[m:]
				continue
			}
			switch {
			case errors.Is(err, bufio.ErrTooLong):
				if n >= 0 && n <= most || n < 0 && len(rest) < most {
					t.Fatalf("%v, but %d of %q", err, n, rest)
				}
			case errors.Is(err, io.ErrUnexpectedEOF):
				if n >= 0 || !bytes.Equal(got, rest) {
					t.Fatalf("%v with %q of %q", err, got, rest)
				}
				rest = nil
			case err == io.EOF:
				if len(rest) > 0 {
					t.Fatalf("the end, before %q", rest)
				}
			case err != nil || n < 0 || n > most || !bytes.Equal(got, rest[:n]):
				t.Fatalf("%q, %v; want %d of %q", got, err, n, rest)
			default:
				rest = rest[n:]
			}
		}
	})
}

// TestReaderReturnsWhatCameBeforeTheEnd, whichever message is cut.
func TestReaderReturnsWhatCameBeforeTheEnd(t *testing.T) {
	for name, read := range map[string]func(r *stream.Reader) ([]byte, error){
		"ReadExactly": func(r *stream.Reader) ([]byte, error) { return r.ReadExactly(10) },
		"ReadUntil":   func(r *stream.Reader) ([]byte, error) { return r.ReadUntil([]byte("\r\n\r\n")) },
		"ReadLine":    (*stream.Reader).ReadLine,
	} {
		r := stream.NewReader(strings.NewReader("half"), 0)
		if got, err := read(r); string(got) != "half" || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if got, err := read(r); len(got) != 0 || err != io.EOF {
			t.Errorf("%s at the end: %q, %v", name, got, err)
		}
	}
}
