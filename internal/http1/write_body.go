package http1

import (
	"net/http"
	"strconv"
)

// ChunkEnd follows the data of every chunk.
const ChunkEnd = "\r\n"

// AppendChunk appends data as a chunk. An empty one would be the last, so nothing
// is appended for that.
func AppendChunk[Bytes string | []byte](dst []byte, data Bytes) []byte {
	if len(data) == 0 {
		return dst
	}
	dst = AppendChunkHead(dst, len(data))
	dst = append(dst, data...)
	return append(dst, ChunkEnd...)
}

// AppendChunkHead appends what comes before n bytes of data, and ChunkEnd after
// them, for who writes them from where they are. There must be at least one.
func AppendChunkHead(dst []byte, n int) []byte {
	if n <= 0 {
		panic("http1: chunk of no bytes")
	}
	dst = strconv.AppendInt(dst, int64(n), 16)
	return append(dst, "\r\n"...)
}

// AppendLastChunk appends the end of a chunked body, with trailers if there are
// any. If one cannot be written, it returns dst as it was, and an error.
func AppendLastChunk(dst []byte, trailers http.Header) ([]byte, error) {
	b := append(dst, "0\r\n"...)
	if len(trailers) > 0 {
		for key := range trailers {
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

// RequestHead is what AppendRequestHead writes.
type RequestHead struct {
	// Method and Target are as in the request line: Target is a path and query, a
	// whole URL to a proxy, host and port for CONNECT, or the asterisk.
	Method, Target string
	// Host is for the field Host; it may be empty.
	Host string
	// Length is the body's, or Chunked.
	Length int64
	// Connection is what to say about it, if Header does not.
	Connection Connection
	// Header is written in the order of its keys, except for Host, Content-Length
	// and Transfer-Encoding.
	Header http.Header
}

// AppendRequestHead appends the request line, the header and the empty line. If
// something cannot be written, it returns dst as it was, and an error.
func AppendRequestHead(dst []byte, r *RequestHead) ([]byte, error) {
	if r.Length < Chunked {
		panic("http1: request of unknown length")
	}
	b := append(dst, r.Method...)
	b = append(b, ' ')
	b = append(b, r.Target...)
	b = append(b, " HTTP/1.1\r\n"...)
	// The parser is the judge of what a server would read.
	p := parser{most: largest}
	if ok, err := p.requestLine(b[len(dst):]); !ok || err != nil || p.pos != len(b)-len(dst) {
		return dst, ErrWriteTarget
	}
	if r.Host != "" && !validHost([]byte(r.Host)) {
		return dst, ErrWriteTarget
	}
	b = append(b, "Host: "...)
	b = append(b, r.Host...)
	b = append(b, "\r\n"...)
	b, err := appendHeader(b, r.Header, omitFraming|omitHost)
	if err != nil {
		return dst, err
	}
	b = appendConnection(b, r.Connection, r.Header)
	if r.Length != 0 || r.Method == "POST" || r.Method == "PUT" || r.Method == "PATCH" {
		b = appendFraming(b, r.Length)
	}
	return append(b, "\r\n"...), nil
}
