package ws_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/ws"
)

var packing = ws.Options{CompressFrom: 1, MessageLimit: 4 << 20}

// Section 12 of the Autobahn test suite: compressed messages of every kind.
func TestCompressedMessages(t *testing.T) {
	var cases []peerCase
	for name, op := range map[string]byte{"text": text, "binary": binry} {
		for _, n := range loads([]int{1, 1024, 16, 64, 256, 4096, 8192, 32768, 131072, 1 << 20}) {
			cases = append(cases, peerCase{fmt.Sprintf("%s of %d bytes", name, n), func(p *peer) {
				message := large(n)
				p.send(p.frame(fin|rsv1|op, pack(message)))
				p.wantsPacked(fin|op, message)
				bye(p)
			}})
		}
		cases = append(cases, peerCase{name + ", compressed and in fragments", func(p *peer) {
			message := large(64 << 10)
			p.send(fragmented(p, rsv1|op, pack(message), 1000)...)
			p.wantsPacked(fin|op, message)
			bye(p)
		}}, peerCase{name + ", 60 messages", func(p *peer) {
			for i := range 60 {
				message := fmt.Sprint(i, large(i*10))
				p.send(p.frame(fin|rsv1|op, pack(message)))
				p.wantsPacked(fin|op, message)
			}
			bye(p)
		}}, peerCase{name + ", not compressed, as a sender may choose", func(p *peer) {
			p.send(p.frame(fin|op, "plain"))
			p.wantsPacked(fin|op, "plain")
			bye(p)
		}}, peerCase{name + ", empty", func(p *peer) {
			p.send(p.frame(fin|rsv1|op, "\x00"))
			p.wants(fin|op, "")
			bye(p)
		}}, peerCase{name + ", control frames between", func(p *peer) {
			packed := pack("fragmented")
			p.send(p.frame(rsv1|op, packed[:3]), p.frame(fin|ping, "x"), p.frame(fin|cont, packed[3:]))
			p.wants(fin|pong, "x")
			p.wantsPacked(fin|op, "fragmented")
			bye(p)
		}})
	}
	cases = append(cases, peerCase{"a final block", func(p *peer) {
		p.send(p.frame(fin|rsv1|text, "\xf3\x48\xcd\xc9\xc9\x07\x00\x00"))
		p.wantsPacked(fin|text, "Hello")
		bye(p)
	}}, peerCase{"nonsense", func(p *peer) {
		p.send(p.frame(fin|rsv1|text, "\xff\xff\xff\xff"))
		p.wantsFault(1007)
	}}, peerCase{"inflates to what is not UTF-8", func(p *peer) {
		p.send(p.frame(fin|rsv1|text, pack("caf\xe9")))
		p.wantsFault(1007)
	}}, peerCase{"the bit in a continuation", func(p *peer) {
		packed := pack("fragmented")
		p.send(p.frame(rsv1|text, packed[:3]), p.frame(fin|rsv1|cont, packed[3:]))
		p.wantsFault(1002)
	}}, peerCase{"the bit in a ping", func(p *peer) {
		p.send(p.frame(fin|rsv1|ping, ""))
		p.wantsFault(1002)
	}})
	run(t, packing, cases)
}

// TestCompressionBombIsCutOff checks that a message that inflates beyond the limit
// ends the connection. Compressed bytes count, too.
func TestCompressionBombIsCutOff(t *testing.T) {
	bomb := pack(string(make([]byte, 16<<20)))
	for _, s := range implementations {
		t.Run(s.name, func(t *testing.T) {
			before := allocated()
			p := s.open(t, ws.Options{CompressFrom: 1, MessageLimit: 1 << 20})
			p.send(p.frame(fin|rsv1|binry, bomb))
			p.wantsFault(1009)
			if grown := allocated() - before; grown > 8<<20 {
				t.Errorf("%d bytes allocated for a bomb of %d", grown, len(bomb))
			}
		})
	}
}

// TestCompressionBombInFragmentsIsCutOff checks that the connection ends although the last
// fragment never comes.
func TestCompressionBombInFragmentsIsCutOff(t *testing.T) {
	bomb := pack(string(make([]byte, 16<<20)))
	for _, s := range implementations {
		t.Run(s.name, func(t *testing.T) {
			p := s.open(t, ws.Options{CompressFrom: 1, MessageLimit: 1 << 20})
			const size = 500
			p.send(p.frame(rsv1|binry, bomb[:size]))
			for at := size; at+size < len(bomb); at += size {
				p.send(p.frame(cont, bomb[at:at+size]))
			}
			p.wantsFault(1009)
		})
	}
}

// TestCompressedFragmentsUpToTheLimit checks that a message of exactly the limit arrives,
// in fragments of any size.
func TestCompressedFragmentsUpToTheLimit(t *testing.T) {
	limit := short.Of(1 << 20)
	for name, message := range map[string]string{"zeros": string(make([]byte, limit)), "text": strings.Repeat("0123456789abcdef", limit)[:limit]} {
		for _, size := range []int{1, 7, 100, 1000} {
			t.Run(fmt.Sprintf("%s, %d", name, size), func(t *testing.T) {
				for _, s := range implementations {
					packed := pack(message)
					p := s.open(t, ws.Options{CompressFrom: 1 << 30, MessageLimit: limit})
					head := byte(rsv1 | binry)
					for at := 0; at < len(packed); at += size {
						end := min(at+size, len(packed))
						if end == len(packed) {
							head |= fin
						}
						p.send(p.frame(head, packed[at:end]))
						head = cont
					}
					p.wants(fin|binry, message)
				}
			})
		}
	}
}

// Section 13: a server's response to offers.
func TestCompressionOffers(t *testing.T) {
	const plain = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"
	address := serveSockets(t, packing, func() ws.Handler { return &socketEcho{t: t, ended: make(chan error, 1)} })
	for _, c := range []struct{ offer, answer string }{
		{"permessage-deflate", plain},
		{"permessage-deflate; client_max_window_bits", plain},
		{"permessage-deflate; client_max_window_bits=9", plain},
		{`permessage-deflate; client_max_window_bits="10"`, plain},
		{"permessage-deflate; server_no_context_takeover", plain},
		{"permessage-deflate; client_no_context_takeover; server_no_context_takeover", plain},
		{"permessage-deflate; server_max_window_bits=15", plain + "; server_max_window_bits=15"},
		{"permessage-deflate; server_max_window_bits=9", plain + "; server_max_window_bits=9"},
		{"permessage-deflate; server_max_window_bits=8; client_max_window_bits", plain + "; server_max_window_bits=8"},
		{"permessage-deflate ;server_max_window_bits = 10", plain + "; server_max_window_bits=10"},
		{"x-unknown, permessage-deflate", plain},
		{"permessage-deflate; unknown, permessage-deflate", plain},
		{"permessage-deflate; server_max_window_bits=99, permessage-deflate; server_max_window_bits=12", plain + "; server_max_window_bits=12"},
		{"permessage-deflate; unknown", ""},
		{"permessage-deflate; server_max_window_bits", ""},
		{"permessage-deflate; server_max_window_bits=7", ""},
		{"permessage-deflate; server_max_window_bits=16", ""},
		{"permessage-deflate; server_max_window_bits=09", ""},
		{"permessage-deflate; client_max_window_bits=0", ""},
		{"permessage-deflate; client_max_window_bits=abc", ""},
		{"permessage-deflate; server_no_context_takeover=1", ""},
		{"permessage-deflate; server_no_context_takeover; server_no_context_takeover", ""},
		{"permessage-bzip2", ""},
		{",,", ""},
	} {
		t.Run(c.offer, func(t *testing.T) {
			nc, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			p := newPeer(t, nc, true)
			res := p.handshake(request(address, "/", "Sec-WebSocket-Extensions: "+c.offer))
			if got := res.Header.Get("Sec-WebSocket-Extensions"); got != c.answer || res.StatusCode != 101 {
				t.Fatalf("%d %q, want %q", res.StatusCode, got, c.answer)
			}
			message := strings.Repeat(large(1000), 10)
			if c.answer == "" {
				comesBack(p, text, message)
				return
			}
			p.send(p.frame(fin|rsv1|text, pack(message)))
			p.wantsPacked(fin|text, message)
		})
	}
}

// TestSmallWindow checks that the compressor refers no farther back than the
// negotiated window.
func TestSmallWindow(t *testing.T) {
	noise := make([]byte, 1000)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	address := serveSockets(t, packing, func() ws.Handler { return plainEcho{} })
	for bits, least := range map[int]int{8: 1990, 9: 1990, 11: 1050, 15: 1050} {
		nc, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		p := newPeer(t, nc, true)
		p.handshake(request(address, "/", fmt.Sprintf("Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits=%d", bits)))
		p.send(p.frame(fin|binry, string(noise)+string(noise)))
		_, packed, err := p.read()
		if err != nil || unpack(packed) != string(noise)+string(noise) || len(packed) < least || len(packed) > least+100 {
			t.Errorf("a window of %d bits: %d bytes, %v; want %d", bits, len(packed), err, least)
		}
	}
}

// FuzzNegotiation checks that a server's response to any offer is acceptable to
// clients, with no larger window than requested.
func FuzzNegotiation(f *testing.F) {
	for _, offer := range []string{
		"permessage-deflate; client_max_window_bits", `permessage-deflate; server_max_window_bits="9", x; y=1`,
		"permessage-deflate;server_no_context_takeover;client_no_context_takeover", ",;=\"", "a;;b",
	} {
		f.Add(offer)
	}
	f.Fuzz(func(t *testing.T, offer string) {
		answer, err := ws.Negotiate(offer)
		if answer != "" && err != nil {
			t.Errorf("the response to %q is %q, which is refused: %v", offer, answer, err)
		}
		if answer != "" && !strings.Contains(offer, "permessage-deflate") {
			t.Errorf("the response to %q is %q", offer, answer)
		}
	})
}
