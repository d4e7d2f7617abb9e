package http1_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/internal/http1"
)

// A part that is as large as its limit is accepted; one byte or field more is not.
func TestLimitsAreExact(t *testing.T) {
	for _, c := range []struct {
		name   string
		limits http1.Limits
		make   func(n int) string
		n      int // the largest size that is accepted
		err    error
	}{
		{"request line", http1.Limits{RequestLine: 40},
			func(n int) string { return pad("GET /", n, " HTTP/1.1\r\n") + "Host: a\r\n\r\n" }, 40, http1.ErrRequestLineTooLong},
		{"header", http1.Limits{HeaderBytes: 40},
			func(n int) string { return "GET / HTTP/1.1\r\n" + pad("Host: a\r\nA: ", n, "\r\n\r\n") }, 40, http1.ErrHeaderTooLarge},
		{"fields", http1.Limits{FieldCount: 3},
			func(n int) string {
				return "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("A: b\r\n", n-1) + "\r\n"
			}, 3, http1.ErrTooManyFields},
		{"chunk extensions", http1.Limits{ChunkExtensionBytes: 10},
			func(n int) string {
				return chunkedHead + "1;" + strings.Repeat("a", n/2) + "\r\nx\r\n0;" + strings.Repeat("b", n-n/2) + "\r\n\r\n"
			}, 10, http1.ErrChunkExtensionTooLarge},
		{"trailers", http1.Limits{TrailerBytes: 20},
			func(n int) string { return chunkedHead + "0\r\n" + pad("A: ", n, "\r\n\r\n") }, 20, http1.ErrTrailerTooLarge},
		{"trailer fields", http1.Limits{FieldCount: 3},
			func(n int) string { return chunkedHead + "0\r\n" + strings.Repeat("A: b\r\n", n) + "\r\n" }, 3, http1.ErrTooManyFields},
		{"body", http1.Limits{BodyBytes: 10},
			func(n int) string {
				return fmt.Sprintf("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", n, strings.Repeat("a", n))
			}, 10, http1.ErrBodyTooLarge},
		{"chunks", http1.Limits{BodyBytes: 10},
			func(n int) string {
				return chunkedHead + "4\r\nabcd\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", n-4, strings.Repeat("a", n-4))
			}, 10, http1.ErrBodyTooLarge},
	} {
		for _, pieceSize := range []func(int) int{whole, func(int) int { return 1 }, func(int) int { return 7 }} {
			// Twice, because a limit applies to each message separately.
			if o := read(t, http1.NewRequestParser(c.limits), c.make(c.n)+c.make(c.n), pieceSize); o.err != nil || !o.idle {
				t.Errorf("%s of %d: %v", c.name, c.n, o.err)
			}
			if o := read(t, http1.NewRequestParser(c.limits), c.make(c.n+1), pieceSize); o.err != c.err {
				t.Errorf("%s of %d: error %v, want %v", c.name, c.n+1, o.err, c.err)
			}
		}
	}
}

// pad returns n bytes that begin with before and end with after.
func pad(before string, n int, after string) string {
	return before + strings.Repeat("a", n-len(before)-len(after)) + after
}

func TestLimitAppliesToABodyUntilClose(t *testing.T) {
	for _, pieceSize := range []func(int) int{whole, func(int) int { return 1 }} {
		p := http1.NewResponseParser(http1.Limits{BodyBytes: 3})
		o := read(t, p, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nxy\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\nabc", pieceSize)
		if o.err != nil || o.messages[1].body != "abc" {
			t.Errorf("%+v", o)
		}
		if _, _, err := p.Parse([]byte("d")); err != http1.ErrBodyTooLarge {
			t.Error(err)
		}
	}
}

func TestNegativeLimitsPanic(t *testing.T) {
	for _, l := range []http1.Limits{{RequestLine: -1}, {BodyBytes: -1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v did not panic", l)
				}
			}()
			http1.NewRequestParser(l)
		}()
	}
}

// TestHostsAreChecked: each is checked, whichever came before it.
func TestHostsAreChecked(t *testing.T) {
	p := http1.NewRequestParser(http1.Limits{})
	long := "[" + strings.Repeat("0", 100) + "::1]"
	for _, c := range []struct {
		host string
		want error
	}{
		{"a", nil}, {"a", nil}, {"a/b", http1.ErrHost}, {"a/b", http1.ErrHost}, {"a", nil}, {"", nil}, {"ab", nil},
		{"[::1]", nil}, {"[::1", http1.ErrHost}, {long, nil}, {long[:64], http1.ErrHost}, {long, nil}, {long + "x", http1.ErrHost},
	} {
		if _, _, err := p.Parse([]byte("GET / HTTP/1.1\r\nHost: " + c.host + "\r\n\r\n")); err != c.want {
			t.Errorf("%q: %v", c.host, err)
		} else if err == nil && string(p.Host()) != c.host {
			t.Errorf("%q: got %q", c.host, p.Host())
		}
		p.Reset()
	}
}
