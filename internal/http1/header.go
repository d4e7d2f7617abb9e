package http1

import (
	"bytes"
	"net/http"
	"strings"
)

// AddTo adds the fields to h as net/http does. Names are in canonical form. Host and
// the fields that framed the message are left out, and so is Connection of a response
// if it says close. The values are copied in one allocation.
func (p *parser) AddTo(h http.Header) {
	if p.addsNone() {
		return
	}
	first := p.fields[0].name.from
	p.addTo(h, first, p.copyFrom(first))
}

// TargetAndAddTo is AddTo for a request's Head. It also returns Target, as a part of the
// string that has the values.
func (p *RequestParser) TargetAndAddTo(h http.Header) (target string) {
	if p.addsNone() {
		return string(p.Target())
	}
	first := p.target.from
	text := p.copyFrom(first)
	p.addTo(h, first, text)
	return text[:p.target.to-first]
}

// addsNone reports whether there is no field to add: Host is not added to a request's
// header, and there is often nothing else.
func (p *parser) addsNone() bool {
	return len(p.fields) == 0 || len(p.fields) == 1 && !p.responses && equalFold(p.text(p.fields[0].name), "host")
}

// copyFrom returns the text from first to the end of the last field.
func (p *parser) copyFrom(first uint32) string {
	return string(p.base[first:p.fields[len(p.fields)-1].value.to])
}

// addTo adds the fields with values that are parts of text, which begins at first.
func (p *parser) addTo(h http.Header, first uint32, text string) {
	values := make([]string, 0, len(p.fields))
	for _, f := range p.fields {
		key := canonical(text[f.name.from-first : f.name.to-first])
		switch key {
		case "Host":
			if !p.responses {
				continue
			}
		case "Transfer-Encoding":
			continue
		case "Connection":
			if p.responses && p.version == HTTP11 && p.facts&connClose != 0 {
				continue
			}
		case "Trailer":
			if p.Chunked() {
				continue
			}
		}
		value := text[f.value.from-first : f.value.to-first]
		if before, ok := h[key]; ok {
			h[key] = append(before, value)
			continue
		}
		n := len(values)
		values = append(values, value)
		h[key] = values[n : n+1 : n+1]
	}
	// Pragma is the HTTP/1.0 form of Cache-Control. Handlers check only the latter.
	if pragma := h["Pragma"]; len(pragma) > 0 && pragma[0] == "no-cache" {
		if _, ok := h["Cache-Control"]; !ok {
			h["Cache-Control"] = []string{"no-cache"}
		}
	}
}

// DeclareTrailers adds a key to h for every field that the Trailer fields announce.
// Call it at Head. At End, AddTo adds the values.
func (p *parser) DeclareTrailers(h http.Header) {
	if p.facts&sawTrailer == 0 || !p.Chunked() {
		return
	}
	for i := range p.fields {
		name, list := p.Field(i)
		if !equalFold(name, "trailer") {
			continue
		}
		for len(list) > 0 {
			var item []byte
			item, list, _ = bytes.Cut(list, comma)
			if item = trimSpace(item); len(item) > 0 {
				h[canonical(string(item))] = nil
			}
		}
	}
}

// MethodString returns Method as a string. It does not allocate for common methods.
func (p *RequestParser) MethodString() string {
	switch m := p.Method(); string(m) {
	case "GET":
		return "GET"
	case "HEAD":
		return "HEAD"
	case "POST":
		return "POST"
	case "PUT":
		return "PUT"
	case "PATCH":
		return "PATCH"
	case "DELETE":
		return "DELETE"
	case "OPTIONS":
		return "OPTIONS"
	case "CONNECT":
		return "CONNECT"
	default:
		return string(m)
	}
}

// canonical returns the name in the form of a key of http.Header. It allocates only for
// names that are neither in that form nor common.
func canonical(name string) string {
	if isCanonical(name) {
		return name
	}
	var buf [32]byte
	if len(name) > len(buf) {
		return http.CanonicalHeaderKey(name)
	}
	key := buf[:len(name)]
	upper := true
	for i := range len(name) {
		c := name[i]
		if class[c]&inToken == 0 {
			return name
		}
		if letter := c|0x20-'a' < 26; letter && upper {
			c &^= 0x20
		} else if letter {
			c |= 0x20
		}
		key[i] = c
		upper = c == '-'
	}
	if known, ok := common[string(key)]; ok {
		return known
	}
	return string(key)
}

// Canonical returns a name in the form of a key of http.Header.
func Canonical(name string) string { return canonical(name) }

func isCanonical(name string) bool {
	upper := true
	for i := range len(name) {
		c := name[i]
		if upper && c-'a' < 26 || !upper && c-'A' < 26 || class[c]&inToken == 0 {
			return false
		}
		upper = c == '-'
	}
	return true
}

// common has the names that clients and servers often send in lower case.
var common = commonNames()

func commonNames() map[string]string {
	m := map[string]string{}
	for name := range strings.FieldsSeq(`
		Accept Accept-Charset Accept-Encoding Accept-Language Accept-Ranges
		Access-Control-Allow-Credentials Access-Control-Allow-Headers
		Access-Control-Allow-Methods Access-Control-Allow-Origin
		Access-Control-Request-Headers Access-Control-Request-Method Age Allow
		Authorization Cache-Control Connection Content-Disposition
		Content-Encoding Content-Language Content-Length Content-Location
		Content-Range Content-Type Cookie Date Dnt Etag Expect Expires
		Forwarded From Host If-Match If-Modified-Since If-None-Match If-Range
		If-Unmodified-Since Keep-Alive Last-Modified Link Location Origin
		Pragma Priority Proxy-Authorization Range Referer Retry-After
		Sec-Ch-Ua Sec-Ch-Ua-Mobile Sec-Ch-Ua-Platform Sec-Fetch-Dest
		Sec-Fetch-Mode Sec-Fetch-Site Sec-Fetch-User Sec-Websocket-Accept
		Sec-Websocket-Extensions Sec-Websocket-Key Sec-Websocket-Protocol
		Sec-Websocket-Version Server Set-Cookie Strict-Transport-Security Te
		Traceparent Tracestate Trailer Transfer-Encoding Upgrade
		Upgrade-Insecure-Requests User-Agent Vary Via Www-Authenticate
		X-Forwarded-For X-Forwarded-Host X-Forwarded-Proto X-Real-Ip
		X-Request-Id X-Requested-With`) {
		m[name] = name
	}
	return m
}

// HasToken reports whether a field that is a list of tokens contains token, in any case.
// Values are those of all of its lines.
func HasToken(values []string, token string) bool {
	for _, value := range values {
		for item := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.Trim(item, " \t"), token) {
				return true
			}
		}
	}
	return false
}
