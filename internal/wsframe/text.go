package wsframe

import "unicode/utf8"

// Text checks that text in pieces is UTF-8. It finds an error at the first byte that
// cannot be part of valid text. The zero Text is ready for the first piece.
type Text struct {
	part [utf8.UTFMax - 1]byte // the beginning of a character
	n    uint8                 // bytes in part
}

// Add checks the next piece. It reports whether the text so far can be the beginning
// of valid UTF-8.
func (t *Text) Add(p []byte) bool {
	for t.n > 0 && len(p) > 0 {
		var r [utf8.UTFMax]byte
		n := copy(r[:], t.part[:t.n])
		r[n] = p[0]
		p = p[1:]
		if !utf8.FullRune(r[:n+1]) {
			t.n = uint8(copy(t.part[:], r[:n+1]))
			continue
		}
		if c, size := utf8.DecodeRune(r[:n+1]); c == utf8.RuneError && size <= 1 {
			return false
		}
		t.n = 0
	}
	// The last character may be incomplete: it begins in one of the last three bytes.
	whole := len(p)
	for i := 1; i <= min(len(p), utf8.UTFMax-1); i++ {
		if b := p[len(p)-i]; utf8.RuneStart(b) {
			if !utf8.FullRune(p[len(p)-i:]) {
				whole = len(p) - i
				t.n = uint8(copy(t.part[:], p[whole:]))
			}
			break
		}
	}
	return utf8.Valid(p[:whole])
}

// Complete reports whether the text ends with a complete character.
func (t *Text) Complete() bool { return t.n == 0 }
