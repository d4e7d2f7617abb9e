package deflate_test

import (
	"bytes"
	"compress/flate"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/ws/internal/deflate"
)

func TestMain(m *testing.M) { leak.Main(m) }

// texts returns messages of different size and entropy.
func texts() [][]byte {
	noise := make([]byte, 100_000)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	return [][]byte{
		nil, []byte("x"), []byte("Hello"), []byte(strings.Repeat("Hello", 100)), make([]byte, 1<<17), noise, noise[:70],
		append(bytes.Clone(noise[:40_000]), noise[:40_000]...),
	}
}

func TestInflateReturnsWhatWasCompressed(t *testing.T) {
	for i, text := range texts() {
		for _, level := range []int{1, 9} {
			for _, window := range []int{8, 12, 15} {
				packed := deflate.Append([]byte("before"), text, level, window)
				packed = packed[len("before"):]
				got, err := deflate.Inflate([]byte("before"), packed, len(text))
				if err != nil || !bytes.Equal(got[len("before"):], text) {
					t.Errorf("text %d, level %d, window %d: %d bytes, %v", i, level, window, len(got), err)
				}
				if d := maxDistance(t, packed); d > 1<<window {
					t.Errorf("text %d, level %d, window %d: a distance of %d", i, level, window, d)
				}
			}
		}
	}
}

// maxDistance returns an upper bound for the distances in a compressed message. Flate
// does not report distances. But the data before a reset ends with an empty stored
// block. If the data after it inflates independently, it refers to nothing before it.
func maxDistance(t *testing.T, packed []byte) (most int) {
	t.Helper()
	all := inflated(packed)
	for remaining := all; len(packed) > 0; {
		block, rest, _ := bytes.Cut(packed, []byte("\x00\x00\xff\xff"))
		part := inflated(block)
		if len(part) == 0 || !bytes.HasPrefix(remaining, part) {
			return min(len(all), 1<<deflate.MaxWindow) // not split into blocks
		}
		remaining, packed = remaining[len(part):], rest
		most = max(most, len(part))
	}
	return min(most, 1<<deflate.MaxWindow)
}

func inflated(packed []byte) []byte {
	p, _ := io.ReadAll(flate.NewReader(io.MultiReader(bytes.NewReader(packed), strings.NewReader("\x00\x00\xff\xff\x01\x00\x00\xff\xff"))))
	return p
}

// The examples are those of RFC 7692, section 7.2.3.
func TestInflateOfTheRFCExamples(t *testing.T) {
	for name, packed := range map[string]string{
		"fixed Huffman": "\xf2\x48\xcd\xc9\xc9\x07\x00",
		"stored":        "\x00\x05\x00\xfa\xff\x48\x65\x6c\x6c\x6f\x00",
		"a final block": "\xf3\x48\xcd\xc9\xc9\x07\x00\x00",
		"two blocks":    "\xf2\x48\x05\x00\x00\x00\xff\xff\xca\xc9\xc9\x07\x00",
	} {
		got, err := deflate.Inflate(nil, []byte(packed), 5)
		if err != nil || string(got) != "Hello" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// A message that inflates to more than the limit must not be inflated completely.
func TestInflateStopsAtTheLimit(t *testing.T) {
	bomb := deflate.Append(nil, make([]byte, 16<<20), 9, 15)
	t.Logf("%d bytes inflate to 16 MB", len(bomb))
	got, err := deflate.Inflate(nil, bomb, 1000)
	if !errors.Is(err, deflate.ErrTooLarge) || cap(got) > 2000 {
		t.Errorf("Inflate allocated %d bytes and returned %v, want ErrTooLarge", cap(got), err)
	}
	if got, err := deflate.Inflate(nil, bomb, 16<<20); err != nil || len(got) != 16<<20 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestInflateOfInvalidDataFails(t *testing.T) {
	for _, invalid := range []string{"\xff\xff\xff", "\x06", "\x00\x05\x00\x00\x00Hello"} {
		if got, err := deflate.Inflate(nil, []byte(invalid), 1<<20); err == nil {
			t.Errorf("Inflate(%q) returned %q and no error", invalid, got)
		}
	}
}

// The test reads in small pieces, after Close, and from a source that fails.
func TestReader(t *testing.T) {
	text := []byte(strings.Repeat("to be or not to be, ", 1000))
	packed := deflate.Append(nil, text, 1, 15)
	r := deflate.NewReader(iotest.OneByteReader(bytes.NewReader(packed)))
	if got, err := io.ReadAll(iotest.OneByteReader(r)); err != nil || !bytes.Equal(got, text) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	r.Close()
	r.Close()
	if _, err := r.Read(make([]byte, 1)); err == nil {
		t.Error("Read after Close succeeded")
	}
	broken := errors.New("broken")
	r = deflate.NewReader(io.MultiReader(bytes.NewReader(packed[:50]), iotest.ErrReader(broken)))
	defer r.Close()
	if _, err := io.ReadAll(r); err != broken {
		t.Errorf("error %v, want %v", err, broken)
	}
}
