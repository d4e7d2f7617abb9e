package ws_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/ws"
)

// Section 7: every way to close.
func TestClose(t *testing.T) {
	cases := []peerCase{
		{"after a message", func(p *peer) {
			comesBack(p, text, "Hello")
			bye(p)
		}},
		{"twice", func(p *peer) {
			p.send(p.frame(fin|clos, closePayload(1000, "")), p.frame(fin|clos, closePayload(1001, "")))
			p.wantsClose(1000)
		}},
		{"a ping after the Close is not answered", func(p *peer) {
			p.send(p.frame(fin|clos, closePayload(1000, "")), p.frame(fin|ping, "late"))
			p.wantsClose(1000)
		}},
		{"a message after the Close is not read", func(p *peer) {
			p.send(p.frame(fin|clos, closePayload(1000, "")), p.frame(fin|text, "late"))
			p.wantsClose(1000)
		}},
		{"within a message in fragments", func(p *peer) {
			p.send(p.frame(text, "one"), p.frame(fin|clos, closePayload(1000, "")), p.frame(fin|cont, "two"))
			p.wantsClose(1000)
		}},
		{"behind a large message", func(p *peer) {
			large := strings.Repeat("BAsd7&jh23", 26<<10)
			p.send(p.frame(fin|text, large), p.frame(fin|clos, closePayload(1000, "")), p.frame(fin|ping, ""))
			p.wants(fin|text, large)
			p.wantsClose(1000)
		}},
		{"without a code", func(p *peer) {
			p.send(p.frame(fin|clos, ""))
			p.wantsClose(1005)
			if err := p.end(); codeOf(err) != 1005 {
				p.t.Errorf("closed with %v", err)
			}
		}},
		{"with half a code", func(p *peer) {
			p.send(p.frame(fin|clos, "\x03"))
			p.wantsFault(1002)
		}},
		{"with the longest reason", func(p *peer) {
			p.send(p.frame(fin|clos, closePayload(1000, strings.Repeat("*", 123))))
			p.wantsClose(1000)
		}},
		{"with a longer one", func(p *peer) {
			p.send(p.frame(fin|clos, closePayload(1000, strings.Repeat("*", 124))))
			p.wantsFault(1002)
		}},
		{"byte by byte", func(p *peer) {
			p.dribble(1, p.frame(fin|clos, closePayload(1001, "going")))
			p.wantsClose(1001)
			if err := p.end(); err.Error() != `ws: closed by the peer with 1001: "going"` {
				p.t.Errorf("closed with %v", err)
			}
		}},
		{"not at all", func(p *peer) {
			comesBack(p, text, "Hello")
			p.nc.Close()
			if err := p.end(); codeOf(err) != 1006 {
				p.t.Errorf("closed with %v", err)
			}
		}},
	}
	for _, code := range []int{1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999} {
		cases = append(cases, peerCase{fmt.Sprintf("with %d", code), func(p *peer) {
			p.send(p.frame(fin|clos, closePayload(code, "")))
			p.wantsClose(code)
			if closed, ok := p.end().(*ws.CloseError); !ok || int(closed.Code) != code {
				p.t.Errorf("closed with %v", closed)
			}
		}})
	}
	for _, code := range []int{0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535} {
		cases = append(cases, peerCase{fmt.Sprintf("bad close code %d", code), func(p *peer) {
			p.send(p.frame(fin|clos, closePayload(code, "")))
			p.wantsFault(1002)
		}})
	}
	run(t, ws.Options{}, cases)
}
