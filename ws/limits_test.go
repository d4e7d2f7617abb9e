package ws_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/ws"
)

// large returns text of n bytes with few repetitions.
func large(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%d and then ", i*i)
	}
	return b.String()[:n]
}

// fragmented returns a message in frames of at most size bytes.
func fragmented(p *peer, op byte, message string, size int) (frames [][]byte) {
	for len(message) > size {
		frames = append(frames, p.frame(op, message[:size]))
		message, op = message[size:], cont
	}
	return append(frames, p.frame(fin|op, message))
}

// loads returns all sizes, if tests do all of their work and without the race detector, which
// is slow at moving bytes.
func loads(all []int) []int {
	if short.UnderRace || !short.Full() {
		return all[1:2]
	}
	return all
}

// Section 9: large messages, in one frame, in fragments and in small packets, and
// many messages.
func TestLargeMessages(t *testing.T) {
	var cases []peerCase
	for name, op := range map[string]byte{"text": text, "binary": binry} {
		for _, n := range loads([]int{64 << 10, 256 << 10, 1 << 20, 4 << 20}) {
			cases = append(cases, peerCase{fmt.Sprintf("%s of %d KB", name, n>>10), func(p *peer) {
				message := large(n)
				go p.nc.Write(p.frame(fin|op, message)) // reads meanwhile, because both buffers may be full
				p.wants(fin|op, message)
				bye(p)
			}})
		}
		for _, size := range loads([]int{64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10}) {
			cases = append(cases, peerCase{fmt.Sprintf("%s of 1 MB in fragments of %d bytes", name, size), func(p *peer) {
				message := large(1 << 20)
				p.send(fragmented(p, op, message, size)...)
				p.wants(fin|op, message)
				bye(p)
			}}, peerCase{fmt.Sprintf("%s of 256 KB in packets of %d bytes", name, size), func(p *peer) {
				message := large(256 << 10)
				p.dribble(size, p.frame(fin|op, message))
				p.wants(fin|op, message)
				bye(p)
			}})
		}
		for _, n := range []int{0, 16, 125, 1024, 16384} {
			cases = append(cases, peerCase{fmt.Sprintf("100 times %s of %d bytes", name, n), func(p *peer) {
				message := large(n)
				for range 100 {
					comesBack(p, op, message)
				}
				bye(p)
			}})
		}
	}
	run(t, ws.Options{MessageLimit: 4 << 20}, cases)
}

// Section 10: a message that the sender fragments automatically.
func TestAutoFragmentation(t *testing.T) {
	run(t, ws.Options{}, []peerCase{{"64 KB in fragments of 1300 bytes", func(p *peer) {
		message := large(64 << 10)
		p.send(fragmented(p, text, message, 1300)...)
		p.wants(fin|text, message)
		bye(p)
	}}})
}

// TestFragmentLimitFollowsMessageLimit checks that a larger MessageLimit also allows
// more frames, up to one for each byte.
func TestFragmentLimitFollowsMessageLimit(t *testing.T) {
	message := large(140_000) // above the lowest limit on frames, 131,072
	run(t, ws.Options{MessageLimit: len(message)}, []peerCase{{"a frame for each byte", func(p *peer) {
		p.send(bytes.Join(fragmented(p, text, message, 1), nil))
		p.wants(fin|text, message)
		bye(p)
	}}})
}

// TestLimits checks that one byte too many is refused as soon as a head announces
// it.
func TestLimits(t *testing.T) {
	run(t, ws.Options{MessageLimit: 1000, FrameLimit: 600, FragmentLimit: 4}, []peerCase{
		{"a frame at its limit", func(p *peer) {
			comesBack(p, text, large(600))
			bye(p)
		}},
		{"a frame above it", func(p *peer) {
			p.send(p.frame(fin|text, large(601))[:8]) // only the head
			p.wantsFault(1009)
		}},
		{"a frame of 2^62 bytes", func(p *peer) {
			head := "\x82\x7f\x40\x00\x00\x00\x00\x00\x00\x00"
			if p.client {
				head = "\x82\xff\x40\x00\x00\x00\x00\x00\x00\x00key!"
			}
			p.send([]byte(head))
			p.wantsFault(1009)
		}},
		{"a message at its limit", func(p *peer) {
			p.send(p.frame(text, large(500)), p.frame(fin|cont, large(500)))
			p.wants(fin|text, large(500)+large(500))
			bye(p)
		}},
		{"a message above it", func(p *peer) {
			p.send(p.frame(text, large(500)), p.frame(fin|cont, large(501))[:8])
			p.wantsFault(1009)
		}},
		{"as many fragments as may be", func(p *peer) {
			p.send(fragmented(p, text, "abcd", 1)...)
			p.wants(fin|text, "abcd")
			comesBack(p, text, "and another")
			bye(p)
		}},
		{"too many fragments", func(p *peer) {
			p.send(fragmented(p, text, "abcde", 1)...)
			p.wantsFault(1008)
		}},
	})
}
