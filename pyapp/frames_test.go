package pyapp

import (
	"bytes"
	"testing"
)

// masked returns a frame of a client with n bytes of payload.
func masked(first byte, n int) []byte {
	head := []byte{first, 0x80 | byte(n)}
	switch {
	case n > 0xffff:
		head = []byte{first, 0xff, 0, 0, 0, 0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
	case n > 125:
		head = []byte{first, 0xfe, byte(n >> 8), byte(n)}
	}
	return append(append(head, 1, 2, 3, 4), bytes.Repeat([]byte{0x81}, n)...)
}

// TestGoAwayFollowsAWholeFrame checks, for each place in a stream, that the Close comes at the
// end of the frame that is under way, and that nothing follows it.
func TestGoAwayFollowsAWholeFrame(t *testing.T) {
	for _, step := range []int{1, 5, 1 << 20} {
		var stream []byte
		var ends []int // 0, and the ends of frames
		for _, n := range []int{0, 1, 125, 126, 300, 0, 70_000, 2} {
			ends = append(ends, len(stream))
			stream = append(stream, masked(0x82, n)...)
		}
		ends = append(ends, len(stream))
		for _, at := range []int{0, 1, 5, 6, 7, 12, 13, 14, 15, 140, 145, 146, 150, 1000, 70_000, len(stream) - 1, len(stream)} {
			var got bytes.Buffer
			f := &framesTo{w: &got}
			rest := stream
			write := func(n int) {
				for n > 0 {
					some := min(n, step)
					if m, err := f.Write(rest[:some]); m != some || err != nil {
						t.Fatal(m, err)
					}
					rest = rest[some:]
					n -= some
				}
			}
			write(at)
			f.goAway()
			write(len(rest))
			end := 0
			for _, end = range ends {
				if end >= at {
					break
				}
			}
			if want := append(bytes.Clone(stream[:end]), goingAway...); !bytes.Equal(got.Bytes(), want) {
				t.Errorf("in steps of %d, after %d bytes: %d bytes, want %d", step, at, got.Len(), len(want))
			}
		}
	}
}
