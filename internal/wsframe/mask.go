package wsframe

import "encoding/binary"

// Key is the masking key of a client's frame.
type Key [4]byte

// Mask masks or unmasks p in place. At is the number of payload bytes before p. Mask
// returns the value of at for the next call.
func Mask(p []byte, key Key, at int) int {
	next := (at + len(p)) & 3
	if at &= 3; at != 0 {
		key = Key{key[at], key[(at+1)&3], key[(at+2)&3], key[(at+3)&3]}
	}
	word := uint64(binary.LittleEndian.Uint32(key[:]))
	word |= word << 32
	for len(p) >= 32 {
		binary.LittleEndian.PutUint64(p, binary.LittleEndian.Uint64(p)^word)
		binary.LittleEndian.PutUint64(p[8:], binary.LittleEndian.Uint64(p[8:])^word)
		binary.LittleEndian.PutUint64(p[16:], binary.LittleEndian.Uint64(p[16:])^word)
		binary.LittleEndian.PutUint64(p[24:], binary.LittleEndian.Uint64(p[24:])^word)
		p = p[32:]
	}
	for len(p) >= 8 {
		binary.LittleEndian.PutUint64(p, binary.LittleEndian.Uint64(p)^word)
		p = p[8:]
	}
	for i := range p {
		p[i] ^= key[i&3]
	}
	return next
}
