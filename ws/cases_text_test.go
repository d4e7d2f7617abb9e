package ws_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/ws"
)

// texts are right and wrong UTF-8; bad is where the first wrong byte is, -1 for none,
// and the length if it is cut off.
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

// Section 6: text is UTF-8, however it is cut.
func TestCasesUTF8(t *testing.T) {
	var cases []aCase
	for _, c := range texts {
		want := func(p *peer) {
			if c.bad >= 0 {
				p.wantsFault(1007)
				return
			}
			p.wants(fin|text, c.text)
			bye(p)
		}
		cases = append(cases, aCase{c.name, func(p *peer) {
			p.send(p.frame(fin|text, c.text))
			want(p)
		}}, aCase{c.name + ", a fragment for each byte", func(p *peer) {
			p.send(p.frame(text, ""))
			for i := range len(c.text) {
				if c.bad >= 0 && i > c.bad {
					break // the other side has noticed
				}
				p.send(p.frame(cont, c.text[i:i+1]))
			}
			if c.bad < 0 || c.bad == len(c.text) {
				p.send(p.frame(fin|cont, ""))
			}
			want(p)
		}}, aCase{c.name + ", as a reason to close", func(p *peer) {
			p.send(p.frame(fin|clos, closePayload(1000, c.text)))
			if c.bad >= 0 {
				p.wantsFault(1007)
				return
			}
			p.wantsClose(1000)
			if closed, ok := p.end().(*ws.CloseError); !ok || closed.Reason != c.text {
				p.t.Errorf("closed with %v", closed)
			}
		}}, aCase{c.name + ", as binary", func(p *peer) {
			comesBack(p, binry, c.text)
			bye(p)
		}})
	}
	run(t, ws.Options{}, cases)
}

// TestInvalidUTF8SplitAcrossFramesFailsFast: the Close comes before the message, or
// even its frame, has come to its end.
func TestInvalidUTF8SplitAcrossFramesFailsFast(t *testing.T) {
	run(t, ws.Options{}, []aCase{
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

// Section 7: every way to close.
func TestCasesClose(t *testing.T) {
	cases := []aCase{
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
				p.t.Errorf("it ended with %v", err)
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
				p.t.Errorf("it ended with %v", err)
			}
		}},
		{"not at all", func(p *peer) {
			comesBack(p, text, "Hello")
			p.nc.Close()
			if err := p.end(); codeOf(err) != 1006 {
				p.t.Errorf("it ended with %v", err)
			}
		}},
	}
	for _, code := range []int{1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999} {
		cases = append(cases, aCase{fmt.Sprintf("with %d", code), func(p *peer) {
			p.send(p.frame(fin|clos, closePayload(code, "")))
			p.wantsClose(code)
			if closed, ok := p.end().(*ws.CloseError); !ok || int(closed.Code) != code {
				p.t.Errorf("it ended with %v", closed)
			}
		}})
	}
	for _, code := range []int{0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535} {
		cases = append(cases, aCase{fmt.Sprintf("bad close code %d", code), func(p *peer) {
			p.send(p.frame(fin|clos, closePayload(code, "")))
			p.wantsFault(1002)
		}})
	}
	run(t, ws.Options{}, cases)
}
