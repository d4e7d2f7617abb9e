package http1_test

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/internal/http1"
)

func TestCanonicalNamesAreThoseOfNetHTTP(t *testing.T) {
	for name := range http1.Common() {
		for _, spelling := range []string{name, strings.ToLower(name), strings.ToUpper(name)} {
			if got := http1.Canonical(spelling); got != http.CanonicalHeaderKey(spelling) || got != name {
				t.Errorf("canonical(%q) = %q, want %q", spelling, got, name)
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
			t.Fatalf("canonical(%q) = %q, want %q", name, got, want)
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
	p.AddTo(h) // grows the map
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

func TestGetFindsTheFirstFieldIgnoringCase(t *testing.T) {
	p := http1.NewRequestParser(http1.Limits{})
	p.Parse([]byte("GET / HTTP/1.1\r\nHost: a\r\nx-A_b: 1\r\nX-a_B: 2\r\nEmpty:\r\nX^: 3\r\n\r\n"))
	for name, want := range map[string]string{"X-A_B": "1", "x-a_b": "1", "HOST": "a", "Empty": "", "X^": "3"} {
		if got := p.Get(name); string(got) != want || got == nil {
			t.Errorf("%s is %q", name, got)
		}
	}
	// Only letters have a case: a caret is not a tilde, and an underscore is not DEL.
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
			t.Fatalf("textEnd(%q, %d) = %d, want %d", b, from, got, want)
		}
	}
}

func TestHasToken(t *testing.T) {
	for _, test := range []struct {
		values []string
		want   bool
	}{
		{nil, false},
		{[]string{""}, false},
		{[]string{"close"}, true},
		{[]string{"Close"}, true},
		{[]string{"keep-alive,\tCLOSE "}, true},
		{[]string{"keep-alive", ", close,"}, true},
		{[]string{"closed"}, false},
		{[]string{"not close"}, false},
		{[]string{"close\u00a0"}, false},
	} {
		if got := http1.HasToken(test.values, "close"); got != test.want {
			t.Errorf("HasToken(%q) = %v, want %v", test.values, got, test.want)
		}
	}
}
