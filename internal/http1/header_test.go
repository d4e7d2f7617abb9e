package http1_test

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/internal/http1"
)

func TestNamesAreCanonicalAsInNetHTTP(t *testing.T) {
	for name := range http1.Common() {
		for _, spelt := range []string{name, strings.ToLower(name), strings.ToUpper(name)} {
			if got := http1.Canonical(spelt); got != http.CanonicalHeaderKey(spelt) || got != name {
				t.Errorf("%s is %s", spelt, got)
			}
		}
	}
	r := rand.New(rand.NewPCG(9, 5))
	for range rounds(20000) {
		name := make([]byte, r.IntN(40))
		for i := range name {
			name[i] = "abzABZ-_09~^ @\x80"[r.IntN(15-r.IntN(2)*4)]
		}
		if got, want := http1.Canonical(string(name)), http.CanonicalHeaderKey(string(name)); got != want {
			t.Fatalf("%q is %q, not %q", name, got, want)
		}
	}
}

func TestCommonNamesDoNotAllocate(t *testing.T) {
	names := []string{"host", "User-Agent", "sec-websocket-key", "X-Unknown-But-Canonical"}
	if n := testing.AllocsPerRun(100, func() {
		for _, name := range names {
			http1.Canonical(name)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAddToTakesThreeAllocationsForAnyHeader(t *testing.T) {
	p := http1.NewRequestParser(http1.Limits{})
	p.Parse([]byte(browser))
	h := http.Header{}
	p.AddTo(h) // makes the map's room
	if n := testing.AllocsPerRun(100, func() {
		clear(h)
		p.AddTo(h)
	}); n > 3 {
		t.Errorf("%v allocations", n)
	}
	if len(h) != 11 || h.Get("accept-language") != "en-US,en;q=0.5" {
		t.Errorf("%v", h)
	}
}

func TestGetFindsTheFirstInAnyCase(t *testing.T) {
	p := http1.NewRequestParser(http1.Limits{})
	p.Parse([]byte("GET / HTTP/1.1\r\nHost: a\r\nx-A_b: 1\r\nX-a_B: 2\r\nEmpty:\r\nX^: 3\r\n\r\n"))
	for name, want := range map[string]string{"X-A_B": "1", "x-a_b": "1", "HOST": "a", "Empty": "", "X^": "3"} {
		if got := p.Get(name); string(got) != want || got == nil {
			t.Errorf("%s is %q", name, got)
		}
	}
	// A caret is not a tilde in another case, nor an underscore DEL.
	for _, name := range []string{"X", "X-A", "X~", "X-A\x7fB", ""} {
		if got := p.Get(name); got != nil {
			t.Errorf("%s is %q", name, got)
		}
	}
}

func TestTextEndsAtControlCharacters(t *testing.T) {
	r := rand.New(rand.NewPCG(10, 5))
	for range rounds(100000) {
		b := make([]byte, r.IntN(30))
		for i := range b {
			b[i] = byte(r.Uint32())
			if r.IntN(8) > 0 {
				b[i] |= 0x20
			}
		}
		from := r.IntN(len(b) + 1)
		want := from
		for want < len(b) && b[want] >= 0x20 && b[want] != 0x7f {
			want++
		}
		if got := http1.TextEnd(b, from); got != want {
			t.Fatalf("%q from %d: %d, not %d", b, from, got, want)
		}
	}
}

func TestFieldsThatAreNoTrailers(t *testing.T) {
	for _, name := range strings.Fields(`TE Host Range Expect Cookie Pragma Trailer Upgrade Connection Set-Cookie Keep-Alive Content-Type
		Max-Forwards Authorization Content-Range Cache-Control Content-Length Content-Encoding Www-Authenticate Transfer-Encoding
		Proxy-Authenticate Proxy-Authorization`) {
		if !http1.NeverTrailer(name) || !http1.NeverTrailer(strings.ToLower(name)) {
			t.Errorf("%s can be a trailer", name)
		}
	}
	for _, name := range strings.Fields("Digest Etag Server-Timing Grpc-Status X-Checksum Hosts Content-Lengths") {
		if http1.NeverTrailer(name) {
			t.Errorf("%s cannot be a trailer", name)
		}
	}
}

// TestOneTrailerIsAdded: a single field that is not Host.
func TestOneTrailerIsAdded(t *testing.T) {
	p := http1.NewRequestParser(http1.Limits{})
	data := []byte("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Sum: 1\r\n\r\n")
	h := make(http.Header)
	for {
		n, event, err := p.Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		data = data[n:]
		if event == http1.End {
			p.AddTo(h)
			break
		}
	}
	if len(h) != 1 || h.Get("X-Sum") != "1" {
		t.Errorf("got %v", h)
	}
}
