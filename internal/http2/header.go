package http2

import (
	"strings"

	"golang.org/x/net/http2/hpack"
)

// Header is the header of a message, or its trailers. It is valid until the next call of
// Parse.
type Header struct {
	// The fields of a request that begin with a colon. Protocol is that of an extended
	// CONNECT.
	Method, Scheme, Authority, Path, Protocol string
	// Status is that of a response, 0 in a request.
	Status int
	// Fields are the others in the order of arrival. Their names are in lower case.
	Fields []hpack.HeaderField
	// Length is the Content-Length, -1 if there is none.
	Length int64
	// TooLarge says that the header exceeds a limit. Its Fields are not all then.
	TooLarge bool

	size     int
	seen     pseudo
	fault    bool // malformed: the stream is reset
	trailers bool
	cookies  int
}

// pseudo is a set of fields that begin with a colon.
type pseudo uint8

const (
	sawMethod pseudo = 1 << iota
	sawScheme
	sawAuthority
	sawPath
	sawProtocol
	sawStatus
)

func (h *Header) reset(trailers bool) {
	clear(h.Fields)
	*h = Header{Fields: h.Fields[:0], Length: -1, trailers: trailers}
}

// Get returns the value of the first field with that name, which is in lower case.
func (h *Header) Get(name string) (value string, ok bool) {
	for i := range h.Fields {
		if h.Fields[i].Name == name {
			return h.Fields[i].Value, true
		}
	}
	return "", false
}

// fieldCost is what a field counts besides its bytes, so that many empty fields are limited
// too.
const fieldCost = 32

// add is called by the decoder for each field.
func (sh *Shared) add(f hpack.HeaderField) {
	h := &sh.head
	if h.fault || h.TooLarge {
		return
	}
	h.size += len(f.Name) + len(f.Value) + fieldCost
	if h.size > sh.config.HeaderBytes+fieldCost*sh.config.FieldCount || len(h.Fields) == sh.config.FieldCount {
		h.TooLarge = true
		return
	}
	if len(f.Name) > 0 && f.Name[0] == ':' {
		h.fault = h.trailers || len(h.Fields) > 0 || !h.addPseudo(f.Name, f.Value)
		return
	}
	if !validName(f.Name) || !validValue(f.Value) || !h.note(f.Name, f.Value) {
		h.fault = true
		return
	}
	h.Fields = append(h.Fields, f)
}

// addPseudo notes a field that begins with a colon. It reports whether it is allowed.
func (h *Header) addPseudo(name, value string) bool {
	var at *string
	var what pseudo
	switch name {
	case ":method":
		at, what = &h.Method, sawMethod
	case ":scheme":
		at, what = &h.Scheme, sawScheme
	case ":authority":
		at, what = &h.Authority, sawAuthority
	case ":path":
		at, what = &h.Path, sawPath
	case ":protocol":
		at, what = &h.Protocol, sawProtocol
	case ":status":
		if h.seen&sawStatus != 0 || len(value) != 3 {
			return false
		}
		n, ok := decimal(value)
		h.Status, h.seen = int(n), h.seen|sawStatus
		return ok && n >= 100
	default:
		return false
	}
	if h.seen&what != 0 || !validValue(value) {
		return false
	}
	h.seen |= what
	*at = value
	return true
}

// note checks the fields that have a meaning for the connection. It reports whether the
// field is allowed.
func (h *Header) note(name, value string) bool {
	switch name {
	case "connection", "proxy-connection", "transfer-encoding", "upgrade", "keep-alive":
		return false
	case "te":
		return value == "trailers"
	case "content-length":
		n, ok := decimal(value)
		if !ok || h.Length >= 0 && h.Length != n {
			return false
		}
		h.Length = n
	case "cookie":
		h.cookies++
	}
	return true
}

// complete checks a whole header. It reports whether the header is that of a message.
func (h *Header) complete(role Role, extended bool) bool {
	switch {
	case h.fault:
		return false
	case h.trailers || h.TooLarge:
		return true
	case role == Client:
		return h.seen == sawStatus
	case h.seen&sawStatus != 0 || h.seen&sawMethod == 0 || !validToken(h.Method):
		return false
	case h.Method == "CONNECT" && h.seen&sawProtocol == 0:
		return h.seen&(sawScheme|sawPath) == 0 && h.Authority != ""
	case h.seen&sawProtocol != 0 && (h.Method != "CONNECT" || !extended):
		return false
	}
	return h.seen&(sawScheme|sawPath) == sawScheme|sawPath && h.Scheme != "" && validPath(h.Method, h.Path)
}

func validPath(method, path string) bool {
	return strings.HasPrefix(path, "/") || path == "*" && method == "OPTIONS"
}

// Cookie returns the fields Cookie as one, which clients may split.
func (h *Header) Cookie() string {
	var all []string
	for i := range h.Fields {
		if h.Fields[i].Name == "cookie" {
			all = append(all, h.Fields[i].Value)
		}
	}
	return strings.Join(all, "; ")
}

// Cookies returns how many fields Cookie there are.
func (h *Header) Cookies() int { return h.cookies }

// ExpectsContinue reports whether the client waits for a 100 before it sends the body.
func (h *Header) ExpectsContinue() bool {
	value, ok := h.Get("expect")
	return ok && strings.EqualFold(value, "100-continue")
}

// Priority returns the urgency that the field Priority of a request asks for.
func (h *Header) Priority() (urgency uint8, incremental bool) {
	value, _ := h.Get("priority")
	return parsePriority(value)
}

// parsePriority reads the parameters u and i of a field Priority.
func parsePriority(value string) (urgency uint8, incremental bool) {
	urgency = defaultUrgency
	for item := range strings.SplitSeq(value, ",") {
		switch item = strings.Trim(item, " \t"); {
		case len(item) == 3 && item[:2] == "u=" && item[2] >= '0' && item[2] <= '7':
			urgency = item[2] - '0'
		case item == "i", item == "i=?1":
			incremental = true
		case item == "i=?0":
			incremental = false
		}
	}
	return urgency, incremental
}

const defaultUrgency = 3
