package http1

import (
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Lengths of a body that are not a number.
const (
	// Chunked is for a body in chunks: see AppendChunk and AppendLastChunk.
	Chunked int64 = -1
	// Unframed is for a response that says nothing of its length: its body ends
	// with the connection, or it is to HEAD and nobody knows.
	Unframed int64 = -2
)

// Connection is what a head says about the connection.
type Connection uint8

// What can be said.
const (
	Unsaid    Connection = iota // HTTP/1.1 goes on, HTTP/1.0 closes
	Close                       // it is closed after this
	KeepAlive                   // it goes on: for HTTP/1.0
)

// Continue is the response to who expects it before sending a body.
const Continue = "HTTP/1.1 100 Continue\r\n\r\n"

// ResponseHead is what AppendResponseHead writes.
type ResponseHead struct {
	// Version is the request's.
	Version Version
	// Status is from 100 to 999.
	Status int
	// Length is the body's, or Chunked or Unframed. Statuses that have no body
	// (1xx, 204, 304) leave it out.
	Length int64
	// Connection is what to say about it, if Header does not.
	Connection Connection
	// Date is a line of AppendDate, which the caller keeps for a second; empty
	// leaves it out.
	Date []byte
	// Header is written in the order of its keys, except for Content-Length and
	// Transfer-Encoding, which are Length's, and Date if there is one above.
	Header http.Header
}

// AppendResponseHead appends the status line, the header and the empty line. If a
// name or value cannot be written, it returns dst as it was, and an error.
func AppendResponseHead(dst []byte, r *ResponseHead) ([]byte, error) {
	if r.Length == Chunked && r.Version == HTTP10 {
		panic("http1: chunked response to HTTP/1.0")
	}
	b := AppendStatusLine(dst, r.Version, r.Status)
	b = append(b, r.Date...)
	skip := omitFraming
	if len(r.Date) > 0 {
		skip |= omitDate
	}
	b, err := appendHeader(b, r.Header, skip)
	if err != nil {
		return dst, err
	}
	b = appendConnection(b, r.Connection, r.Header)
	if r.Status/100 != 1 && r.Status != 204 && r.Status != 304 {
		b = appendFraming(b, r.Length)
	}
	return append(b, "\r\n"...), nil
}

// AppendStatusLine appends the status line.
func AppendStatusLine(dst []byte, v Version, status int) []byte {
	if v == HTTP11 && status == 200 {
		return append(dst, "HTTP/1.1 200 OK\r\n"...)
	}
	if status < 100 || status > 999 {
		panic("http1: status " + strconv.Itoa(status))
	}
	dst = append(dst, v.String()...)
	dst = append(dst, ' ', byte('0'+status/100), byte('0'+status/10%10), byte('0'+status%10), ' ')
	dst = append(dst, http.StatusText(status)...)
	return append(dst, "\r\n"...)
}

// AppendDate appends the field Date.
func AppendDate(dst []byte, t time.Time) []byte {
	dst = append(dst, "Date: "...)
	dst = t.UTC().AppendFormat(dst, http.TimeFormat)
	return append(dst, "\r\n"...)
}

// AppendContentLength appends the field Content-Length.
func AppendContentLength(dst []byte, n int64) []byte {
	dst = append(dst, "Content-Length: "...)
	dst = strconv.AppendInt(dst, n, 10)
	return append(dst, "\r\n"...)
}

// AppendField appends a field. If it would not be read as one again, as with a line
// break in value, it returns dst as it was, and an error.
func AppendField[Value string | []byte](dst []byte, name string, value Value) ([]byte, error) {
	for i := range len(name) {
		if class[name[i]]&inToken == 0 {
			return dst, ErrWriteName
		}
	}
	if name == "" {
		return dst, ErrWriteName
	}
	b := append(dst, name...)
	b = append(b, ": "...)
	from := len(b)
	b = append(b, value...)
	if !isText(b[from:]) {
		return dst, ErrWriteValue
	}
	return append(b, "\r\n"...), nil
}

// AppendHeader appends all fields of h, in the order of their keys.
func AppendHeader(dst []byte, h http.Header) ([]byte, error) {
	return appendHeader(dst, h, 0)
}

// omit is which fields appendHeader leaves out, because somebody else writes them.
type omit uint8

const (
	omitFraming omit = 1 << iota // Content-Length, Transfer-Encoding
	omitDate
	omitHost
)

func (o omit) has(key string) bool {
	switch key {
	case "Content-Length", "Transfer-Encoding":
		return o&omitFraming != 0
	case "Date":
		return o&omitDate != 0
	case "Host":
		return o&omitHost != 0
	}
	return false
}

func appendHeader(dst []byte, h http.Header, skip omit) ([]byte, error) {
	var room [24]string
	keys := room[:0]
	for key := range h {
		if !skip.has(canonical(key)) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	b := dst
	for _, key := range keys {
		for _, value := range h[key] {
			var err error
			if b, err = AppendField(b, key, value); err != nil {
				return dst, err
			}
		}
	}
	return b, nil
}

func appendConnection(dst []byte, c Connection, h http.Header) []byte {
	if c == Unsaid || len(h["Connection"]) > 0 {
		return dst
	}
	if c == Close {
		return append(dst, "Connection: close\r\n"...)
	}
	return append(dst, "Connection: keep-alive\r\n"...)
}

func appendFraming(dst []byte, length int64) []byte {
	switch {
	case length >= 0:
		return AppendContentLength(dst, length)
	case length == Chunked:
		return append(dst, "Transfer-Encoding: chunked\r\n"...)
	case length != Unframed:
		panic("http1: negative length")
	}
	return dst
}
