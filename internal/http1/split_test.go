package http1_test

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/spindleloop/spindle/internal/http1"
)

// small has limits that random messages reach.
var small = http1.Limits{RequestLine: 60, HeaderBytes: 100, FieldCount: 4, ChunkExtensionBytes: 3, TrailerBytes: 12, BodyBytes: 11}

// checkSplits reads a stream whole, byte by byte and in random pieces, and compares the
// outcomes.
func checkSplits(t testing.TB, make func() parser, stream string, r *rand.Rand) {
	t.Helper()
	want := read(t, make(), stream, whole)
	for name, pieceSize := range map[string]func(int) int{
		"bytes":      func(int) int { return 1 },
		"few pieces": func(n int) int { return 1 + r.IntN(n+1) },
		"pieces":     func(n int) int { return 1 + r.IntN(8) },
	} {
		if got := read(t, make(), stream, pieceSize); !reflect.DeepEqual(got, want) {
			t.Errorf("%q\nread in %s:\n%+v\nread whole:\n%+v", stream, name, got, want)
		}
	}
}

func requestParser() parser      { return http1.NewRequestParser(http1.Limits{}) }
func smallRequestParser() parser { return http1.NewRequestParser(small) }

func TestRequestsDoNotDependOnTheirPieces(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 5))
	for range rounds(8000) {
		stream := randomStream(r)
		checkSplits(t, requestParser, stream, r)
		checkSplits(t, smallRequestParser, stream, r)
		if t.Failed() {
			return
		}
	}
}

// The test finds decisions that are made too early: no prefix of a valid stream is an
// error, and each has as many messages as have ended in it.
func TestEveryPrefixOfAValidStreamIsAccepted(t *testing.T) {
	stream := "GET /a HTTP/1.1\r\nHost: a\r\nX:  y\t\r\n\r\n" +
		"OPTIONS * HTTP/1.0\r\n\r\n" +
		"POST http://b:80/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;x\r\n12345\r\n0\r\nA: b\r\n\r\n" +
		"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n123"
	ends := []int{}
	for _, m := range readRequests(t, stream).messages {
		ends = append(ends, m.used)
	}
	if len(ends) != 4 || ends[3] != len(stream) {
		t.Fatalf("messages end at %v of %d", ends, len(stream))
	}
	for n := range len(stream) {
		complete := 0
		for _, end := range ends {
			if end <= n {
				complete++
			}
		}
		o := readRequests(t, stream[:n])
		got := 0
		for _, m := range o.messages {
			if m.complete {
				got++
			}
		}
		if o.err != nil || got != complete {
			t.Errorf("%q: %d messages, %v; want %d", stream[:n], got, o.err, complete)
		}
		if idle := n == 0 || complete > 0 && ends[complete-1] == n; o.idle != idle {
			t.Errorf("%q: Idle returned %v", stream[:n], o.idle)
		}
	}
}

// A server that upgrades a connection relies on this.
func TestBytesAfterAnEndAreNotUsed(t *testing.T) {
	request := "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"
	for at := range len(request) {
		p := http1.NewRequestParser(http1.Limits{})
		if at > 0 {
			if n, event, err := p.Parse([]byte(request[:at])); n != at || event != http1.More || err != nil {
				t.Fatal(n, event, err)
			}
		}
		n, event, err := p.Parse([]byte(request[at:] + "\x00not HTTP"))
		if n != len(request)-at || event != http1.Head || err != nil {
			t.Fatalf("split at %d: %d bytes, %v, %v", at, n, event, err)
		}
		if n, event, err := p.Parse([]byte("\x00not HTTP")); n != 0 || event != http1.End || err != nil {
			t.Fatalf("split at %d: %d bytes, %v, %v", at, n, event, err)
		}
	}
}
