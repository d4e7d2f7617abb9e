package ws_test

import (
	"testing"

	"github.com/spindleloop/spindle/ws"
)

// texts are valid and invalid UTF-8. Bad is the index of the first invalid byte: -1
// for none, and the length if the text is truncated.
var texts = []struct {
	name string
	text string
	bad  int
}{
	{"nothing", "", -1},
	{"ASCII", "Hello-World", -1},
	{"two bytes each", "κόσμε Hällö", -1},
	{"the first and last of each length", "\x00\u007f\u0080\u07ff\u0800\uffff\U00010000\U0010ffff", -1},
	{"around the surrogates", "\ud7ff\ue000\ufffd", -1},
	{"noncharacters", "\ufffe\uffff\U0001fffe\U0010fffe", -1},
	{"a continuation byte alone", "a\x80", 1},
	{"two of them", "\xbf\x80", 0},
	{"a first byte alone", "\xc3 ", 1},
	{"all first bytes of two, each with a space", "\xc2 \xdf ", 1},
	{"three bytes, cut by a space", "\xe2\x82 ", 2},
	{"four bytes, cut by a space", "\xf0\x9f\x98 ", 3},
	{"impossible bytes", "\xfe\xff", 0},
	{"overlong slash", "\xc0\xaf", 0},
	{"overlong slash in three", "\xe0\x80\xaf", 1},
	{"overlong slash in four", "\xf0\x80\x80\xaf", 1},
	{"overlong NUL", "\xc0\x80", 0},
	{"a surrogate", "κόσμε\xed\xa0\x80edited", 12},
	{"a pair of surrogates", "\xed\xad\xbf\xed\xb0\x80", 1},
	{"above the last character", "\xf4\x90\x80\x80", 1},
	{"five bytes", "\xf8\x88\x80\x80\x80", 0},
	{"cut off after one of two", "abc\xce", 4},
	{"cut off after two of three", "\xe2\x82", 2},
	{"cut off after three of four", "\xf0\x9f\x98", 3},
}

// Section 6: text is UTF-8, however it is fragmented.
func TestUTF8(t *testing.T) {
	var cases []peerCase
	for _, c := range texts {
		want := func(p *peer) {
			if c.bad >= 0 {
				p.wantsFault(1007)
				return
			}
			p.wants(fin|text, c.text)
			bye(p)
		}
		cases = append(cases, peerCase{c.name, func(p *peer) {
			p.send(p.frame(fin|text, c.text))
			want(p)
		}}, peerCase{c.name + ", a fragment for each byte", func(p *peer) {
			p.send(p.frame(text, ""))
			for i := range len(c.text) {
				if c.bad >= 0 && i > c.bad {
					break // the other side has failed the connection
				}
				p.send(p.frame(cont, c.text[i:i+1]))
			}
			if c.bad < 0 || c.bad == len(c.text) {
				p.send(p.frame(fin|cont, ""))
			}
			want(p)
		}}, peerCase{c.name + ", as a reason to close", func(p *peer) {
			p.send(p.frame(fin|clos, closePayload(1000, c.text)))
			if c.bad >= 0 {
				p.wantsFault(1007)
				return
			}
			p.wantsClose(1000)
			if closed, ok := p.end().(*ws.CloseError); !ok || closed.Reason != c.text {
				p.t.Errorf("closed with %v", closed)
			}
		}}, peerCase{c.name + ", as binary", func(p *peer) {
			comesBack(p, binry, c.text)
			bye(p)
		}})
	}
	run(t, ws.Options{}, cases)
}

// TestInvalidUTF8SplitAcrossFramesFailsFast checks that the Close is sent before the
// message, or even its frame, is complete.
func TestInvalidUTF8SplitAcrossFramesFailsFast(t *testing.T) {
	run(t, ws.Options{}, []peerCase{
		{"the second fragment makes it wrong", func(p *peer) {
			p.send(p.frame(text, "κόσμε\xf4"))
			p.send(p.frame(cont, "\x90"))
			p.wantsFault(1007)
		}},
		{"the middle of a frame makes it wrong", func(p *peer) {
			whole := p.frame(fin|text, "κόσμε\xed\xa0\x80edited")
			head := len(whole) - 20
			p.send(whole[:head+13]) // up to the second byte of the surrogate
			p.wantsFault(1007)
		}},
		{"a ping between two halves of a character does no harm", func(p *peer) {
			p.send(p.frame(text, "\xce"), p.frame(fin|ping, "\xff"), p.frame(fin|cont, "\xba"))
			p.wants(fin|pong, "\xff")
			p.wants(fin|text, "κ")
			bye(p)
		}},
	})
}
