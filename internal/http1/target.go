package http1

import (
	"bytes"
	"net/netip"
)

// pathEnd returns the index of the first byte at or after i that is not part of a path
// and query.
func pathEnd(b []byte, i int) int {
	for i < len(b) {
		if class[b[i]]&inPath != 0 {
			i++
			continue
		}
		if b[i] != '%' {
			break
		}
		if i+2 < len(b) && hex[b[i+1]]|hex[b[i+2]] < 16 {
			i += 3
			continue
		}
		return i
	}
	if i < len(b) && b[i] == '?' {
		// Percent signs are not checked in a query: old forms send them
		// unescaped.
		for i < len(b) && class[b[i]]&inQuery != 0 {
			i++
		}
	}
	return i
}

// otherTarget checks a target at i that is not in origin form. It returns the end of
// the target, or -1 if the target is invalid. The line must be complete.
func (p *parser) otherTarget(b []byte, i int) int {
	length := bytes.IndexByte(b[i:], ' ')
	if length <= 0 {
		return -1
	}
	target, end := b[i:i+length], i+length
	method := b[:i-1]
	switch {
	case isConnect(method):
		colon := bytes.LastIndexByte(target, ':')
		if !validHost(target) || colon < 0 || colon == length-1 || target[length-1] == ']' {
			return -1
		}
		p.host = span{uint32(i), uint32(end)}
		return end
	case string(target) == "*":
		if string(method) == "OPTIONS" {
			return end
		}
		return -1
	}
	scheme := schemeLength(target)
	if scheme == 0 {
		return -1
	}
	host := scheme
	for host < length && target[host] != '/' && target[host] != '?' {
		host++
	}
	if !validHost(target[scheme:host]) || !validLiteral(target[scheme:host]) {
		return -1
	}
	if host < length && pathEnd(target, host) != length {
		return -1
	}
	p.host = span{uint32(i + scheme), uint32(i + host)}
	return end
}

// schemeLength returns the length of "http://" or "https://" at the beginning of
// target, or 0.
func schemeLength(target []byte) int {
	for _, scheme := range [...]string{"http://", "https://"} {
		n := len(scheme)
		if len(target) >= n && equalFold(target[:n-3], scheme[:n-3]) && string(target[n-3:n]) == "://" {
			return n
		}
	}
	return 0
}

// validHost reports whether b is a host with an optional port. It accepts no percent
// escapes: no name that can be resolved has them, and a program that decodes them would
// see a different host than one that does not.
func validHost(b []byte) bool {
	i, kind := 0, uint8(inHost)
	if len(b) > 0 && b[0] == '[' {
		i, kind = 1, inIP
	}
	from := i
	for i < len(b) && class[b[i]]&kind != 0 {
		i++
	}
	if i == from {
		return false
	}
	if kind == inIP {
		if i >= len(b) || b[i] != ']' || bytes.Count(b[from:i], []byte(":")) < 2 {
			return false
		}
		i++
	}
	if i == len(b) {
		return true
	}
	if b[i] != ':' {
		return false
	}
	for i++; i < len(b); i++ {
		if b[i]-'0' > 9 {
			return false
		}
	}
	return true
}

// validLiteral reports whether an address in brackets, if host is one, is valid. Package
// net/url checks that for URLs; net/http does not check it for Host.
func validLiteral(host []byte) bool {
	if host[0] != '[' {
		return true
	}
	_, err := netip.ParseAddr(string(host[1:bytes.IndexByte(host, ']')]))
	return err == nil
}
