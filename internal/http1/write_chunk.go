package http1

import (
	"net/http"
	"strconv"
)

// ChunkEnd follows the data of every chunk.
const ChunkEnd = "\r\n"

// AppendChunk appends data as a chunk. It appends nothing for empty data, because an
// empty chunk ends the body.
func AppendChunk[Bytes string | []byte](dst []byte, data Bytes) []byte {
	if len(data) == 0 {
		return dst
	}
	dst = AppendChunkHead(dst, len(data))
	dst = append(dst, data...)
	return append(dst, ChunkEnd...)
}

// AppendChunkHead appends the size line of a chunk with n bytes of data, which must be
// at least one. The caller writes the data and ChunkEnd after it.
func AppendChunkHead(dst []byte, n int) []byte {
	if n <= 0 {
		panic("http1: AppendChunkHead of an empty chunk")
	}
	dst = strconv.AppendInt(dst, int64(n), 16)
	return append(dst, "\r\n"...)
}

// AppendLastChunk appends the end of a chunked body, with the trailers. If a trailer is
// invalid, it returns dst unchanged and an error.
func AppendLastChunk(dst []byte, trailers http.Header) ([]byte, error) {
	b := append(dst, "0\r\n"...)
	if len(trailers) > 0 {
		for key := range trailers { // any order: the error is the same
			if neverTrailer([]byte(key)) {
				return dst, ErrTrailerField
			}
		}
		var err error
		if b, err = appendHeader(b, trailers, 0); err != nil {
			return dst, err
		}
	}
	return append(b, "\r\n"...), nil
}
