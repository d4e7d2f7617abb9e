package http2

import "strings"

// decimal parses a number without a sign.
func decimal(s string) (n int64, ok bool) {
	if s == "" || len(s) > 18 {
		return 0, false
	}
	for i := range len(s) {
		d := s[i] - '0'
		if d > 9 {
			return 0, false
		}
		n = n*10 + int64(d)
	}
	return n, true
}

// The bits of class.
const (
	inName  = 1 << iota // a name in lower case
	inToken             // a token in any case
	inValue             // the value of a field
)

var class = classes()

func classes() (t [256]uint8) {
	for c := range 256 {
		b := byte(c)
		if b-'0' < 10 || b-'a' < 26 || strings.IndexByte("!#$%&'*+-.^_`|~", b) >= 0 {
			t[c] |= inName | inToken
		}
		if b-'A' < 26 {
			t[c] |= inToken
		}
		if b >= ' ' && b != 0x7f || b == '\t' {
			t[c] |= inValue
		}
	}
	return t
}

func validName(s string) bool {
	for i := range len(s) {
		if class[s[i]]&inName == 0 {
			return false
		}
	}
	return s != ""
}

func validToken(s string) bool {
	for i := range len(s) {
		if class[s[i]]&inToken == 0 {
			return false
		}
	}
	return s != ""
}

// validValue reports whether s has no control characters, and no spaces at its ends.
func validValue(s string) bool {
	for i := range len(s) {
		if class[s[i]]&inValue == 0 {
			return false
		}
	}
	return s == "" || s[0] != ' ' && s[0] != '\t' && s[len(s)-1] != ' ' && s[len(s)-1] != '\t'
}
