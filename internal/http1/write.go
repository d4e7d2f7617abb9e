package http1

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Special lengths of a body.
const (
	// Chunked is the length of a chunked body: see AppendChunk and AppendLastChunk.
	Chunked int64 = -1
	// Unframed is the length of a response without a Content-Length. Its body ends
	// with the connection, or it answers HEAD and the length is unknown.
	Unframed int64 = -2
)

// Connection is the Connection field that a head is written with.
type Connection uint8

// The values of Connection.
const (
	Unsaid    Connection = iota // no field: HTTP/1.1 keeps the connection, HTTP/1.0 closes it
	Close                       // the connection is closed after this message
	KeepAlive                   // the connection is kept: for HTTP/1.0
)

// Continue is the interim response to a client that waits for it before it sends the
// body.
const Continue = "HTTP/1.1 100 Continue\r\n\r\n"

// OK is the status line of most responses.
const OK = "HTTP/1.1 200 OK\r\n"

// ResponseHead is the head that AppendResponseHead writes.
type ResponseHead struct {
	// Version is the version of the request.
	Version Version
	// Status is the status code, from 100 to 999.
	Status int
	// Length is the length of the body, or Chunked or Unframed. It is not written
	// for statuses without a body (1xx, 204, 304).
	Length int64
	// Connection selects the Connection field, unless Header has one.
	Connection Connection
	// Date is a line from AppendDate, which the caller can reuse for a second. If it
	// is empty, no line is written.
	Date []byte
	// Header is written in the order of its keys. Content-Length and
	// Transfer-Encoding are left out, because Length determines them, and so is Date
	// if the field above is set.
	Header http.Header
}

// AppendResponseHead appends the status line, the header and the empty line. If a name
// or value is invalid, it returns dst unchanged and an error.
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
		return append(dst, OK...)
	}
	if status < 100 || status > 999 {
		panic("http1: invalid status " + strconv.Itoa(status))
	}
	dst = append(dst, v.String()...)
	dst = append(dst, ' ', byte('0'+status/100), byte('0'+status/10%10), byte('0'+status%10), ' ')
	dst = append(dst, http.StatusText(status)...)
	return append(dst, "\r\n"...)
}

// AppendDate appends the Date field.
func AppendDate(dst []byte, t time.Time) []byte {
	dst = append(dst, "Date: "...)
	dst = t.UTC().AppendFormat(dst, http.TimeFormat)
	return append(dst, "\r\n"...)
}

// AppendContentLength appends the Content-Length field.
func AppendContentLength(dst []byte, n int64) []byte {
	dst = append(dst, "Content-Length: "...)
	dst = strconv.AppendInt(dst, n, 10)
	return append(dst, "\r\n"...)
}

// AppendField appends a field. If a parser would not read it as one field, for example
// because value has a line break, it returns dst unchanged and an error.
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

// FieldOrder is the key of a header that has the order of its other keys. It is not written.
// Keys that it does not name come first, sorted. No field of a message has this name.
const FieldOrder = "\x00order"

// InOrder returns the keys of h in the order that h gives them, or sorted if it gives none.
// keys are those to be ordered.
func InOrder(h http.Header, keys []string) []string {
	slices.Sort(keys)
	if len(keys) == 0 || keys[0] != FieldOrder {
		return keys
	}
	place := make(map[string]int)
	for i, key := range h[FieldOrder] {
		if place[key] == 0 {
			place[key] = i + 1
		}
	}
	keys = keys[1:]
	slices.SortStableFunc(keys, func(a, b string) int { return cmp.Compare(place[a], place[b]) })
	return keys
}

// AppendHeader appends all fields of h, in the order of InOrder.
func AppendHeader(dst []byte, h http.Header) ([]byte, error) {
	return appendHeader(dst, h, 0)
}

// omit is the set of fields that appendHeader leaves out, because its caller writes
// them.
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
	var stack [24]string
	keys := stack[:0]
	for key := range h { // any order: sorted below
		if !skip.has(canonical(key)) {
			keys = append(keys, key)
		}
	}
	b := dst
	for _, key := range InOrder(h, keys) {
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
