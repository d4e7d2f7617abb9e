package http1

import (
	"encoding/binary"
	"math/bits"
)

// The bits of class: the elements that a byte may be part of.
const (
	inToken = 1 << iota // methods and field names
	inPath              // a target's path, except for its percent escapes
	inQuery             // a target's query
	inHost              // a registered name, without percent escapes
	inIP                // an IP literal, between the brackets
)

var class = classes()

func classes() (t [256]uint8) {
	for c := range 256 {
		b := byte(c)
		alnum := b-'0' < 10 || b|0x20-'a' < 26
		if alnum || contains("!#$%&'*+-.^_`|~", b) {
			t[c] |= inToken
		}
		// More than RFC 3986 allows: browsers send |, { and } unescaped, and
		// other clients send UTF-8. Clients never send a fragment.
		if b > ' ' && b != 0x7f && b != '#' {
			t[c] |= inQuery
			if b != '%' && b != '?' {
				t[c] |= inPath
			}
		}
		if alnum || contains("-._~!$&'()*+,;=", b) {
			t[c] |= inHost
		}
		if hex[c] < 16 || b == ':' || b == '.' {
			t[c] |= inIP
		}
	}
	return t
}

func contains(s string, b byte) bool {
	for i := range len(s) {
		if s[i] == b {
			return true
		}
	}
	return false
}

// hex has the value of each hexadecimal digit, and 16 for other bytes.
var hex = hexDigits()

func hexDigits() (t [256]uint8) {
	for c := range 256 {
		switch b := byte(c); {
		case b-'0' < 10:
			t[c] = b - '0'
		case b|0x20-'a' < 6:
			t[c] = b | 0x20 - 'a' + 10
		default:
			t[c] = 16
		}
	}
	return t
}

// textEnd returns the index of the first control character at or after i, including
// tab, or len(b) if there is none.
func textEnd(b []byte, i int) int {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	// Check eight bytes at a time. The subtraction sets the high bit of a byte below
	// the space; adding one sets the high bit of DEL. A borrow into the next byte
	// comes only from a byte that is found itself. A carry comes from 0xff and makes
	// a tilde look like DEL.
	rest := b[i:]
	for len(rest) >= 8 {
		w := binary.LittleEndian.Uint64(rest)
		found := ((w - ' '*ones) | (w + ones)) &^ w & highs
		if found == 0 {
			rest = rest[8:]
			continue
		}
		k := bits.TrailingZeros64(found) >> 3
		if rest[k] != '~' {
			return len(b) - len(rest) + k
		}
		rest = rest[k+1:]
	}
	for k, c := range rest {
		if c < ' ' || c == 0x7f {
			return len(b) - len(rest) + k
		}
	}
	return len(b)
}

// isText reports whether b has no control character but tabs.
func isText(b []byte) bool {
	i := textEnd(b, 0)
	for i < len(b) && b[i] == '\t' {
		i = textEnd(b, i+1)
	}
	return i == len(b)
}

// equalFold reports whether b equals lower, ignoring case. Lower has only lower-case
// letters, digits and hyphens. B must not have control characters.
func equalFold(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i := range len(lower) {
		if b[i]|0x20 != lower[i] {
			return false
		}
	}
	return true
}

// trimSpace returns b without leading and trailing spaces and tabs.
func trimSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}
