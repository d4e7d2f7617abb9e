package wsframe_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spindleloop/spindle/internal/wsframe"
)

// largeLimits allows every frame of these tests.
var largeLimits = &wsframe.Limits{Message: 1 << 20, Frame: 1 << 20, Fragments: 1 << 10}

func TestFramesOfEveryLengthFormAreReadAsWritten(t *testing.T) {
	for _, n := range []int{0, 1, 125, 126, 127, 65535, 65536, 1 << 18} {
		payload := bytes.Repeat([]byte{7}, n)
		for role, frame := range map[wsframe.Role][]byte{
			wsframe.Client: wsframe.AppendFrame(nil, wsframe.OpBinary, wsframe.Fin, payload),
			wsframe.Server: wsframe.AppendMaskedFrame(nil, wsframe.OpBinary, wsframe.Fin, payload, wsframe.Key{9, 8, 7, 6}),
		} {
			got, err := decode(role, largeLimits, frame, func() int { return 1000 })
			if err != nil || len(got) != 1 || got[0].data != string(payload) {
				t.Errorf("%d bytes: %d events, %v", n, len(got), err)
			}
		}
	}
}

func TestInvalidFramesFailWithTheirError(t *testing.T) {
	l := &wsframe.Limits{Message: 100, Frame: 80, Fragments: 3}
	for _, c := range []struct {
		name   string
		stream string
		want   *wsframe.Error
	}{
		{"RSV1 without an extension", "\xc1\x00", wsframe.ErrReservedBits},
		{"RSV2", "\xa1\x00", wsframe.ErrReservedBits},
		{"RSV3", "\x91\x00", wsframe.ErrReservedBits},
		{"opcode 3", "\x83\x00", wsframe.ErrOpcode},
		{"opcode 7", "\x87\x00", wsframe.ErrOpcode},
		{"opcode 11", "\x8b\x00", wsframe.ErrOpcode},
		{"opcode 15", "\x8f\x00", wsframe.ErrOpcode},
		{"masked by a server", "\x81\x80", wsframe.ErrMasked},
		{"fragmented ping", "\x09\x00", wsframe.ErrControlFragment},
		{"long ping", "\x89\x7e", wsframe.ErrControlTooLong},
		{"16 bits for 125", "\x82\x7e\x00\x7d", wsframe.ErrLength},
		{"64 bits for 65535", "\x82\x7f\x00\x00\x00\x00\x00\x00\xff\xff", wsframe.ErrLength},
		{"the highest bit", "\x82\x7f\x80\x00\x00\x00\x00\x00\x00\x00", wsframe.ErrLength},
		{"continuation without a message", "\x80\x00", wsframe.ErrNoMessage},
		{"a message within another", "\x01\x01a\x81\x01b", wsframe.ErrMessageNotEnded},
		{"half a close code", "\x88\x01\x03", wsframe.ErrCloseLength},
		{"code 1005", "\x88\x02\x03\xed", wsframe.ErrCloseCode},
		{"a reason that is not UTF-8", "\x88\x03\x03\xe8\xff", wsframe.ErrUTF8},
		{"not UTF-8", "\x81\x01\xff", wsframe.ErrUTF8},
		{"incomplete UTF-8", "\x81\x01\xce", wsframe.ErrUTF8},
		{"a large frame", "\x82\x51", wsframe.ErrFrameTooLarge},
		{"a large message", "\x02\x50" + strings.Repeat("x", 80) + "\x80\x15", wsframe.ErrMessageTooLarge},
		{"many fragments", "\x02\x00\x00\x00\x00\x00\x00\x00", wsframe.ErrTooManyFragments},
	} {
		for name, cut := range map[string]int{"whole": 1000, "by bytes": 1} {
			_, err := decode(wsframe.Client, l, []byte(c.stream), func() int { return cut })
			if err != error(c.want) {
				t.Errorf("%s, %s: %v, want %v", c.name, name, err, c.want)
			}
		}
	}
	if _, err := decode(wsframe.Server, l, []byte("\x81\x00"), func() int { return 2 }); err != error(wsframe.ErrNotMasked) {
		t.Errorf("a client's frame without a mask: %v, want %v", err, wsframe.ErrNotMasked)
	}
	l.Deflate = true
	for _, stream := range []string{"\xc9\x00", "\x41\x01a\xc0\x00"} {
		if _, err := decode(wsframe.Client, l, []byte(stream), func() int { return 9 }); err != error(wsframe.ErrCompressed) {
			t.Errorf("%q: %v, want %v", stream, err, wsframe.ErrCompressed)
		}
	}
}

func TestTextFailsAtItsFirstInvalidByte(t *testing.T) {
	for _, c := range []struct {
		text string
		at   int // the index of the invalid byte
	}{
		{"a\xff", 1}, {"\xc0\x80", 0}, {"\xed\xa0\x80", 1}, {"\xf4\x90\x80\x80", 1}, {"\xf0\x80", 1},
		{"κόσμε\xce\xce", 11}, {"\xf0\x9f\x98a", 3}, {"\xe2\x82\x28", 2}, {"\x80", 0}, {"\xf5", 0},
	} {
		var whole wsframe.Text
		if whole.Add([]byte(c.text)) {
			t.Errorf("%q was accepted", c.text)
		}
		var text wsframe.Text
		for i := range len(c.text) {
			if ok := text.Add([]byte{c.text[i]}); ok != (i < c.at) {
				t.Errorf("%q: Add of byte %d returned %v", c.text, i, ok)
			}
			if i == c.at {
				break
			}
		}
	}
	// Characters of every length, split at every byte.
	for r := rune(0); r <= utf8.MaxRune; r += 1 + r/50 {
		p := []byte(string(r))
		for cut := 1; cut < len(p); cut++ {
			var text wsframe.Text
			if !text.Add(p[:cut]) || text.Complete() || !text.Add(p[cut:]) || !text.Complete() {
				t.Fatalf("%x split at %d was not accepted", p, cut)
			}
		}
	}
}

func TestMaskAtEveryOffsetAndLength(t *testing.T) {
	key := wsframe.Key{1, 20, 130, 255}
	for n := range 100 {
		for at := range 4 {
			p := make([]byte, n)
			next := wsframe.Mask(p, key, at)
			for i, b := range p {
				if b != key[(at+i)&3] {
					t.Fatalf("mask of %d bytes from offset %d: %x", n, at, p)
				}
			}
			if next != (at+n)&3 {
				t.Fatalf("mask of %d bytes from offset %d returned %d", n, at, next)
			}
		}
	}
}

func TestAppendCloseRefusesInvalidCodesAndReasons(t *testing.T) {
	for _, c := range []struct {
		code   wsframe.Code
		reason string
		want   error
	}{
		{0, "", wsframe.ErrSendCode}, {999, "", wsframe.ErrSendCode}, {1004, "", wsframe.ErrSendCode},
		{1005, "x", wsframe.ErrSendCode}, {1006, "", wsframe.ErrSendCode}, {1015, "", wsframe.ErrSendCode},
		{2999, "", wsframe.ErrSendCode}, {5000, "", wsframe.ErrSendCode},
		{1000, strings.Repeat("x", 124), wsframe.ErrSendReason}, {1000, "\xff", wsframe.ErrSendReason},
		{1000, strings.Repeat("x", 123), nil}, {1005, "", nil}, {3000, "", nil}, {4999, "", nil},
	} {
		if _, err := wsframe.AppendClose(nil, c.code, c.reason); !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%d %.9q: %v, want %v", c.code, c.reason, err, c.want)
		}
	}
}

func TestMessagesInOnePieceAllocateNothing(t *testing.T) {
	frame := wsframe.AppendMaskedFrame(nil, wsframe.OpText, wsframe.Fin, []byte("Hello, Wörld"), wsframe.Key{})
	var d wsframe.Decoder
	if n := testing.AllocsPerRun(100, func() {
		if _, e, err := d.Next(largeLimits, frame); err != nil || !e.Final {
			t.Fatal(e, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations per message, want 0", n)
	}
	if !d.Idle() {
		t.Error("the decoder is not idle between messages")
	}
}

func BenchmarkDecode(b *testing.B) {
	for name, n := range map[string]int{"64": 64, "4096": 4096} {
		b.Run(name, func(b *testing.B) {
			frame := wsframe.AppendMaskedFrame(nil, wsframe.OpBinary, wsframe.Fin, make([]byte, n), wsframe.Key{1, 2, 3, 4})
			var d wsframe.Decoder
			b.ReportAllocs()
			b.SetBytes(int64(n))
			for b.Loop() {
				if _, e, err := d.Next(largeLimits, frame); err != nil || !e.Final {
					b.Fatal(e, err)
				}
			}
		})
	}
}
