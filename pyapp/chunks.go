package pyapp

import (
	"strconv"
)

// write writes the n bytes of b that begin at from, as a chunk or as they are. There is space
// for the size of the chunk before them, and for a line end after them.
func (s *sender) write(b []byte, from, n int, chunked bool) error {
	if !chunked {
		_, err := s.c.Write(b[from : from+n])
		return err
	}
	var digits [16]byte
	size := append(strconv.AppendInt(digits[:0], int64(n), 16), "\r\n"...)
	begin := from - len(size)
	copy(b[begin:], size)
	copy(b[from+n:], "\r\n")
	_, err := s.c.Write(b[begin : from+n+2])
	return err
}

// end writes the last chunk and the trailers.
func (s *sender) end() error {
	b := []byte("0\r\n")
	for name, values := range s.r.Trailer {
		for _, value := range values {
			b = appendField(b, name, value)
		}
	}
	_, err := s.c.Write(append(b, "\r\n"...))
	return err
}
