package ws_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/ws"
)

// peerCase is what a peer does to an implementation that echoes every message. The
// cases follow the sections of the Autobahn test suite.
type peerCase struct {
	name string
	do   func(p *peer)
}

// run runs every case on every implementation, servers and clients.
func run(t *testing.T, o ws.Options, cases []peerCase) {
	t.Helper()
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() { // the implementations take turns
				s := implementations[i%len(implementations)]
				t.Run(s.name, func(t *testing.T) { c.do(s.open(t, o)) })
				return
			}
			onEvery(t, o, func(t *testing.T, p *peer) { c.do(p) })
		})
	}
}

// bye closes a connection in order.
func bye(p *peer) {
	p.t.Helper()
	p.send(p.frame(fin|clos, closePayload(1000, "")))
	p.wantsClose(1000)
	if err := p.end(); codeOf(err) != 1000 {
		p.t.Fatalf("closed with %v", err)
	}
}

// comesBack sends a message and checks its echo.
func comesBack(p *peer, op byte, message string) {
	p.t.Helper()
	p.send(p.frame(fin|op, message))
	p.wants(fin|op, message)
}

// Section 1: messages of every length, in one frame.
func TestFraming(t *testing.T) {
	var cases []peerCase
	for name, op := range map[string]byte{"text": text, "binary": binry} {
		for _, n := range []int{0, 1, 125, 126, 127, 128, 65535, 65536} {
			cases = append(cases, peerCase{fmt.Sprintf("%s of %d bytes", name, n), func(p *peer) {
				comesBack(p, op, strings.Repeat("*", n))
				bye(p)
			}})
		}
		cases = append(cases, peerCase{name + " in pieces of 997 bytes", func(p *peer) {
			p.dribble(997, p.frame(fin|op, strings.Repeat("*", 65536)))
			p.wants(fin|op, strings.Repeat("*", 65536))
			bye(p)
		}}, peerCase{name + " byte by byte", func(p *peer) {
			p.dribble(1, p.frame(fin|op, strings.Repeat("*", 300)))
			p.wants(fin|op, strings.Repeat("*", 300))
			bye(p)
		}}, peerCase{name + ", several in one packet", func(p *peer) {
			p.send(p.frame(fin|op, "one"), p.frame(fin|op, ""), p.frame(fin|op, "three"))
			p.wants(fin|op, "one")
			p.wants(fin|op, "")
			p.wants(fin|op, "three")
			bye(p)
		}})
	}
	run(t, ws.Options{}, cases)
}

// Section 2: pings are answered with their payload, pongs are not answered.
func TestPings(t *testing.T) {
	var cases []peerCase
	for name, payload := range map[string]string{"empty": "", "text": "Hello", "binary": "\x00\xff\xfe\xfd", "125 bytes": strings.Repeat("\xfe", 125)} {
		cases = append(cases, peerCase{"a ping, " + name, func(p *peer) {
			p.send(p.frame(fin|ping, payload))
			p.wants(fin|pong, payload)
			bye(p)
		}}, peerCase{"a ping byte by byte, " + name, func(p *peer) {
			p.dribble(1, p.frame(fin|ping, payload))
			p.wants(fin|pong, payload)
			bye(p)
		}}, peerCase{"an unsolicited pong, " + name, func(p *peer) {
			p.send(p.frame(fin|pong, payload), p.frame(fin|ping, "then"))
			p.wants(fin|pong, "then")
			bye(p)
		}})
	}
	ten := func(p *peer) (all [][]byte) {
		for i := range 10 {
			all = append(all, p.frame(fin|ping, fmt.Sprint("ping ", i)))
		}
		return all
	}
	wantTen := func(p *peer) {
		for i := range 10 {
			p.wants(fin|pong, fmt.Sprint("ping ", i))
		}
		bye(p)
	}
	cases = append(cases, peerCase{"a ping of 126 bytes", func(p *peer) {
		p.send(p.frame(fin|ping, strings.Repeat("\xfe", 126)))
		p.wantsFault(1002)
	}}, peerCase{"ten pings", func(p *peer) {
		p.send(ten(p)...)
		wantTen(p)
	}}, peerCase{"ten pings byte by byte", func(p *peer) {
		p.dribble(1, ten(p)...)
		wantTen(p)
	}})
	run(t, ws.Options{}, cases)
}

// Section 3: reserved bits must not be set.
func TestReservedBits(t *testing.T) {
	var cases []peerCase
	for bits := byte(rsv3); bits <= rsv1|rsv2|rsv3; bits += rsv3 {
		name := fmt.Sprintf("bits %03b", bits>>4)
		cases = append(cases, peerCase{name + " in a text", func(p *peer) {
			p.send(p.frame(fin|bits|text, "*"))
			p.wantsFault(1002)
		}}, peerCase{name + " in a message after a good one", func(p *peer) {
			p.send(p.frame(fin|text, "good"), p.frame(fin|bits|binry, "*"), p.frame(fin|ping, ""))
			p.wants(fin|text, "good")
			p.wantsFault(1002)
		}}, peerCase{name + " in a ping, byte by byte", func(p *peer) {
			p.dribble(1, p.frame(fin|text, "good"), p.frame(fin|bits|ping, "*")[:2])
			p.wants(fin|text, "good")
			p.wantsFault(1002)
		}}, peerCase{name + " in a Close", func(p *peer) {
			p.send(p.frame(fin|bits|clos, closePayload(1000, "")))
			p.wantsFault(1002)
		}})
	}
	run(t, ws.Options{}, cases)
}

// Section 4: undefined opcodes.
func TestOpcodes(t *testing.T) {
	var cases []peerCase
	for _, op := range []byte{3, 4, 5, 6, 7, 11, 12, 13, 14, 15} {
		cases = append(cases, peerCase{fmt.Sprintf("opcode %d", op), func(p *peer) {
			p.send(p.frame(fin|op, ""))
			p.wantsFault(1002)
		}}, peerCase{fmt.Sprintf("opcode %d with payload, after a message", op), func(p *peer) {
			p.send(p.frame(fin|text, "good"), p.frame(fin|op, "*"), p.frame(fin|ping, ""))
			p.wants(fin|text, "good")
			p.wantsFault(1002)
		}}, peerCase{fmt.Sprintf("opcode %d byte by byte", op), func(p *peer) {
			p.dribble(1, p.frame(fin|text, "good"), p.frame(fin|op, "*")[:2])
			p.wants(fin|text, "good")
			p.wantsFault(1002)
		}})
	}
	run(t, ws.Options{}, cases)
}

// Section 5: messages in fragments, with control frames between them.
func TestFragmentation(t *testing.T) {
	fragments := func(p *peer) [][]byte {
		return [][]byte{
			p.frame(text, "fragment1"), p.frame(fin|ping, "between"), p.frame(cont, "fragment2"), p.frame(cont, ""),
			p.frame(cont, "fragment3"), p.frame(fin|ping, "again"), p.frame(fin|pong, ""), p.frame(fin|cont, "fragment4"),
		}
	}
	wantFragments := func(p *peer) {
		p.wants(fin|pong, "between")
		p.wants(fin|pong, "again")
		p.wants(fin|text, "fragment1fragment2fragment3fragment4")
		bye(p)
	}
	wrong := func(name string, frames func(p *peer) [][]byte) peerCase {
		return peerCase{name, func(p *peer) {
			p.send(frames(p)...)
			p.wantsFault(1002)
		}}
	}
	run(t, ws.Options{}, []peerCase{
		wrong("a ping in fragments", func(p *peer) [][]byte { return [][]byte{p.frame(ping, "a"), p.frame(fin|cont, "b")} }),
		wrong("a pong in fragments", func(p *peer) [][]byte { return [][]byte{p.frame(pong, "a"), p.frame(fin|cont, "b")} }),
		wrong("a Close in fragments", func(p *peer) [][]byte { return [][]byte{p.frame(clos, "")} }),
		{"two fragments", func(p *peer) {
			p.send(p.frame(text, "one"), p.frame(fin|cont, "two"))
			p.wants(fin|text, "onetwo")
			bye(p)
		}},
		{"two fragments, two packets", func(p *peer) {
			p.send(p.frame(binry, "one"))
			p.send(p.frame(fin|cont, "two"))
			p.wants(fin|binry, "onetwo")
			bye(p)
		}},
		{"fragmentation with control frames between", func(p *peer) {
			p.send(fragments(p)...)
			wantFragments(p)
		}},
		{"the same, each in a packet of its own", func(p *peer) {
			for _, f := range fragments(p) {
				p.send(f)
			}
			wantFragments(p)
		}},
		{"the same, byte by byte", func(p *peer) {
			p.dribble(1, fragments(p)...)
			wantFragments(p)
		}},
		{"only empty fragments", func(p *peer) {
			p.send(p.frame(text, ""), p.frame(cont, ""), p.frame(fin|cont, ""))
			p.wants(fin|text, "")
			bye(p)
		}},
		wrong("a last fragment of nothing", func(p *peer) [][]byte { return [][]byte{p.frame(fin|cont, "x"), p.frame(fin|text, "y")} }),
		wrong("a fragment of nothing", func(p *peer) [][]byte { return [][]byte{p.frame(cont, "x"), p.frame(fin|text, "y")} }),
		{"a fragment after the end of a message", func(p *peer) {
			p.send(p.frame(text, "one"), p.frame(fin|cont, "two"), p.frame(cont, "three"))
			p.wants(fin|text, "onetwo")
			p.wantsFault(1002)
		}},
		wrong("a message within another", func(p *peer) [][]byte { return [][]byte{p.frame(text, "one"), p.frame(fin|text, "two")} }),
	})
}

// TestUnmaskedClientFramesAreRefused also checks that masked frames of a server are
// refused; all types of frames.
func TestUnmaskedClientFramesAreRefused(t *testing.T) {
	var cases []peerCase
	for name, first := range map[string]byte{"text": fin | text, "binary": fin | binry, "a fragment": text, "a ping": fin | ping, "a Close": fin | clos} {
		cases = append(cases, peerCase{name, func(p *peer) {
			p.send(frame(first, "", !p.client))
			p.wantsFault(1002)
		}})
	}
	run(t, ws.Options{}, cases)
}

// TestOversizedControlFramesAreRefused checks that the head suffices for that, in
// every encoding of the length.
func TestOversizedControlFramesAreRefused(t *testing.T) {
	var cases []peerCase
	for name, op := range map[string]byte{"a ping": ping, "a pong": pong, "a Close": clos} {
		for _, n := range []int{126, 65536} {
			cases = append(cases, peerCase{fmt.Sprintf("%s of %d bytes", name, n), func(p *peer) {
				p.send(p.frame(fin|op, strings.Repeat("x", n))[:2])
				p.wantsFault(1002)
			}})
		}
	}
	run(t, ws.Options{}, cases)
}
