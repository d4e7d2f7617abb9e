package webgrpc

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/spindleloop/spindle/internal/http2"
)

// writeHeader prepares the header of the response, which a message follows. It reports whether that was not done before.
func (c *call) writeHeader() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.headed:
		return false
	case c.direct != nil && c.compressor == nil && len(c.header) == 0 && first(c.contentType) == baseType:
		c.headed = true
		c.direct.Respond(encodedType)
	default:
		c.fillHeader()
	}
	return true
}

// fillHeader is writeHeader with the header map. The caller holds mu.
func (c *call) fillHeader() {
	c.headed = true
	h := c.w.Header()
	h["Content-Type"] = contentTypes(c.contentType)
	if c.compressor != nil {
		h["Grpc-Encoding"] = []string{c.compressor.Name()}
	}
	addMetadata(h, "", c.header)
}

// contentTypes returns the content type of the response, which is that of the request.
func contentTypes(values []string) []string {
	if values[0] != baseType {
		return values[:1:1]
	}
	return plainType
}

// Values that headers share. They have no capacity for an append to change.
var (
	plainType = []string{baseType}
	okStatus  = []string{"0"}
)

// What most responses have, encoded.
var (
	encodedType   = encoded("Content-Type", baseType)
	encodedStatus = encoded("Grpc-Status", "0")
)

func encoded(name, value string) string {
	b, err := http2.AppendField(nil, name, value)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// finish sends the status. Without a message before, it is in the header.
func (c *call) finish(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	empty := !c.headed
	switch {
	case empty:
		c.fillHeader()
	case c.direct != nil && err == nil && len(c.trailer) == 0:
		c.direct.Trail(encodedStatus)
		return
	}
	h, prefix, key := c.w.Header(), http.TrailerPrefix, http.TrailerPrefix+"Grpc-Status" // constants: nothing is allocated
	if empty {
		prefix, key = "", "Grpc-Status"
	}
	if err == nil {
		h[key] = okStatus
	} else {
		addStatus(h, prefix, statusOf(err))
	}
	addMetadata(h, prefix, c.trailer)
}

// statusOf returns the status of a method's error. An error without one is Unknown, but for
// those of contexts.
func statusOf(err error) *status.Status {
	if st, ok := status.FromError(err); ok {
		return st
	}
	return status.FromContextError(err)
}

func addStatus(h http.Header, prefix string, st *status.Status) {
	h[prefix+"Grpc-Status"] = []string{strconv.Itoa(int(st.Code()))}
	if m := st.Message(); m != "" {
		h[prefix+"Grpc-Message"] = []string{escape(m)}
	}
	if p := st.Proto(); len(p.GetDetails()) > 0 {
		if b, err := proto.Marshal(p); err == nil {
			h[prefix+"Grpc-Status-Details-Bin"] = []string{encodeBinary(string(b))}
		} else {
			logger.Errorf("details of a status: %v", err)
		}
	}
}

// addMetadata adds md to a header. Keys that are gRPC's own are left out.
func addMetadata(h http.Header, prefix string, md metadata.MD) {
	for key, values := range md {
		if reserved(key) {
			continue
		}
		name := prefix + http.CanonicalHeaderKey(key)
		if strings.HasSuffix(key, "-bin") {
			for _, v := range values {
				h[name] = append(h[name], encodeBinary(v))
			}
		} else {
			h[name] = append(h[name], values...)
		}
	}
}

// reserved reports whether a key of metadata is used by gRPC itself.
func reserved(key string) bool {
	switch key {
	case "content-type", "user-agent", "grpc-message-type", "grpc-encoding", "grpc-message", "grpc-status", "grpc-timeout", "te":
		return true
	}
	return key == "" || key[0] == ':'
}

// metadataOf returns the metadata of a request, as grpc-go describes it.
func metadataOf(r *http.Request) metadata.MD {
	md := make(metadata.MD, len(r.Header)+1)
	for name, values := range r.Header {
		key := strings.ToLower(name)
		switch {
		case reserved(key) && key != "user-agent" && key != "content-type":
		case strings.HasSuffix(key, "-bin"):
			for _, v := range values {
				b, _ := decodeBinary(v) // checked by checkBinary
				md[key] = append(md[key], string(b))
			}
		default:
			md[key] = slices.Clone(values)
		}
	}
	if r.Host != "" {
		md[":authority"] = []string{r.Host}
	}
	return md
}

// checkBinary returns an error for a field of binary metadata that cannot be decoded.
func checkBinary(name string, values []string) error {
	if !strings.HasSuffix(name, "-Bin") {
		return nil
	}
	for _, v := range values {
		if _, err := decodeBinary(v); err != nil {
			return fmt.Errorf("malformed binary metadata in header %q: %w", strings.ToLower(name), err)
		}
	}
	return nil
}

func encodeBinary(v string) string { return base64.RawStdEncoding.EncodeToString([]byte(v)) }

// decodeBinary accepts padding and its absence.
func decodeBinary(v string) ([]byte, error) {
	if len(v)%4 == 0 {
		return base64.StdEncoding.DecodeString(v)
	}
	return base64.RawStdEncoding.DecodeString(v)
}

// validate returns an error for metadata that cannot be sent.
func validate(md metadata.MD) error {
	for key, values := range md {
		for i := range len(key) {
			switch c := key[i]; {
			case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '.', c == '-', c == '_', c == ':' && i == 0:
			default:
				return status.Errorf(codes.Internal, "header key %q contains illegal characters not in [0-9a-z-_.]", key)
			}
		}
		if strings.HasSuffix(key, "-bin") {
			continue
		}
		for _, v := range values {
			if strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r > '~' }) {
				return status.Errorf(codes.Internal, "header key %q contains value with non-printable ASCII characters", key)
			}
		}
	}
	return nil
}

// escape encodes a status message for a header: all but printable ASCII, with percent signs.
func escape(m string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	m = strings.ToValidUTF8(m, "\uFFFD")
	for i := range len(m) {
		if c := m[i]; c >= ' ' && c <= '~' && c != '%' {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}

var errTimeout = errors.New("malformed grpc-timeout")

// parseTimeout parses the field Grpc-Timeout: up to eight digits and a unit.
func parseTimeout(v string) (time.Duration, error) {
	if len(v) < 2 || len(v) > 9 {
		return 0, errTimeout
	}
	n, err := strconv.ParseUint(v[:len(v)-1], 10, 64)
	if err != nil {
		return 0, errTimeout
	}
	unit := unitOf(v[len(v)-1])
	if unit == 0 {
		return 0, errTimeout
	}
	if n > uint64(math.MaxInt64/unit) {
		return math.MaxInt64, nil
	}
	return time.Duration(n) * unit, nil
}

// unitOf returns the unit of a time-out, zero for an unknown one.
func unitOf(c byte) time.Duration {
	switch c {
	case 'H':
		return time.Hour
	case 'M':
		return time.Minute
	case 'S':
		return time.Second
	case 'm':
		return time.Millisecond
	case 'u':
		return time.Microsecond
	case 'n':
		return time.Nanosecond
	}
	return 0
}
