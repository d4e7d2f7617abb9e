package http2

import (
	"errors"
	"strconv"
	"strings"

	"golang.org/x/net/http2/hpack"
)

// Errors of AppendField.
var (
	ErrName  = errors.New("http2: name to write is not a token")
	ErrValue = errors.New("http2: value to write has a control character")
)

// AppendStatus appends the field :status.
func AppendStatus(dst []byte, status int) []byte {
	if status == 200 {
		return append(dst, 0x88)
	}
	for i, known := range staticStatus {
		if known == status {
			return append(dst, 0x88+byte(i))
		}
	}
	return append(dst, 0x08, 3, byte('0'+status/100), byte('0'+status/10%10), byte('0'+status%10))
}

// staticStatus has the values of :status in the static table, from index 8 on.
var staticStatus = [...]int{200, 204, 206, 304, 400, 404, 500}

// AppendField appends a field that no table keeps. The name may have any case. A name or
// value that cannot be sent is an error, and dst is returned unchanged.
func AppendField(dst []byte, name, value string) ([]byte, error) {
	b, ok := appendName(dst, name)
	if !ok {
		return dst, ErrName
	}
	for i := range len(value) {
		if class[value[i]]&inValue == 0 {
			return dst, ErrValue
		}
	}
	return appendString(b, strings.Trim(value, " \t")), nil
}

// AppendContentLength appends the field Content-Length.
func AppendContentLength(dst []byte, n int64) []byte {
	dst = append(dst, 0x0f, 28-15, 0)
	at := len(dst)
	dst = strconv.AppendInt(dst, n, 10)
	dst[at-1] = byte(len(dst) - at)
	return dst
}

// AppendPseudo appends a field that begins with a colon, of a request. It panics for a name that
// is none of those.
func AppendPseudo(dst []byte, name, value string) []byte {
	prefix, known := pseudoNames[name]
	if !known {
		panic("http2: AppendPseudo of " + name)
	}
	return appendString(append(dst, prefix...), value)
}

// pseudoNames has the encoded beginnings of a request's fields that begin with a colon. They are
// not in knownNames, so a handler's header cannot have them.
var pseudoNames = map[string]string{
	":authority": "\x01",
	":method":    "\x02",
	":path":      "\x04",
	":scheme":    "\x06",
	":protocol":  string(appendString([]byte{0}, ":protocol")), // RFC 8441; not in the static table
}

// appendName appends the beginning of a field without indexing, up to its value.
func appendName(dst []byte, name string) (b []byte, ok bool) {
	if prefix, known := knownNames[name]; known {
		return append(dst, prefix...), true
	}
	if !validToken(name) {
		return dst, false
	}
	lower := strings.ToLower(name)
	if prefix, known := knownNames[lower]; known {
		return append(dst, prefix...), true
	}
	return appendString(append(dst, 0), lower), true
}

// appendString appends a string, compressed if that is shorter.
func appendString(dst []byte, s string) []byte {
	if n := hpack.HuffmanEncodeLength(s); n < uint64(len(s)) {
		dst = appendInt(dst, 0x80, 7, n)
		return hpack.AppendHuffmanString(dst, s)
	}
	dst = appendInt(dst, 0, 7, uint64(len(s)))
	return append(dst, s...)
}

// appendInt appends n with a prefix of some bits of the first byte.
func appendInt(dst []byte, first byte, bits uint8, n uint64) []byte {
	most := uint64(1)<<bits - 1
	if n < most {
		return append(dst, first|byte(n))
	}
	dst = append(dst, first|byte(most))
	for n -= most; n >= 0x80; n >>= 7 {
		dst = append(dst, byte(n)|0x80)
	}
	return append(dst, byte(n))
}

// knownNames has the encoded beginnings of fields by their names, in lower case and in the
// form of http.Header's keys.
var knownNames = names()

func names() map[string]string {
	m := map[string]string{}
	add := func(name string, prefix []byte) {
		m[name] = string(prefix)
		m[canonical(name)] = string(prefix)
	}
	for name := range strings.FieldsSeq(otherNames) {
		add(name, appendString([]byte{0}, name))
	}
	for i, name := range strings.Fields(staticNames) {
		if _, done := m[name]; !done && name[0] != ':' {
			add(name, appendInt(nil, 0, 4, uint64(i+1)))
		}
	}
	return m
}

// canonical returns name in the form of http.Header's keys.
func canonical(name string) string {
	b := []byte(name)
	upper := true
	for i, c := range b {
		if upper && c-'a' < 26 {
			b[i] = c - 'a' + 'A'
		}
		upper = c == '-'
	}
	return string(b)
}

// staticNames are the names of the static table, from index 1 on.
const staticNames = `
	:authority :method :method :path :path :scheme :scheme
	:status :status :status :status :status :status :status
	accept-charset accept-encoding accept-language accept-ranges accept
	access-control-allow-origin age allow authorization cache-control
	content-disposition content-encoding content-language content-length content-location
	content-range content-type cookie date etag expect expires from host if-match
	if-modified-since if-none-match if-range if-unmodified-since last-modified link location
	max-forwards proxy-authenticate proxy-authorization range referer refresh retry-after server
	set-cookie strict-transport-security transfer-encoding user-agent vary via www-authenticate`

// otherNames are common names that are not in the static table.
const otherNames = `
	access-control-allow-credentials access-control-allow-headers access-control-allow-methods
	access-control-expose-headers access-control-max-age alt-svc content-security-policy
	cross-origin-opener-policy cross-origin-resource-policy grpc-encoding grpc-message grpc-status
	permissions-policy priority referrer-policy server-timing trailer x-content-type-options
	x-frame-options x-powered-by x-request-id x-xss-protection`
