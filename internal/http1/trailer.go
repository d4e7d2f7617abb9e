package http1

import "bytes"

// readTrailer reads the trailer section from i on, up to the end of the message.
func (p *parser) readTrailer(data []byte, i int) (int, Event, error) {
	n, done, err := p.readSection(data[i:])
	switch {
	case err != nil:
		return 0, More, p.fail(err)
	case !done:
		return len(data), More, nil
	}
	return i + n, p.end(), nil
}

// declaresFraming reports whether a Trailer field announces a field that would change
// where the message ends.
func declaresFraming(value []byte) bool {
	for list := value; len(list) > 0; {
		var name []byte
		name, list, _ = bytes.Cut(list, comma)
		switch name = trimSpace(name); {
		case equalFold(name, "transfer-encoding"), equalFold(name, "content-length"), equalFold(name, "trailer"):
			return true
		}
	}
	return false
}

// MayTrail reports whether a field with the given name may be a trailer.
func MayTrail(name string) bool { return name != "" && !neverTrailer([]byte(name)) }

// neverTrailer reports whether a field must not be a trailer, because it is needed
// before the body or could change how the message is read: framing, routing,
// authentication, control data and the format of the content (RFC 9110, section 6.5.1).
func neverTrailer(name []byte) bool {
	switch len(name) {
	case 2:
		return equalFold(name, "te")
	case 4:
		return equalFold(name, "host")
	case 5:
		return equalFold(name, "range")
	case 6:
		return equalFold(name, "expect") || equalFold(name, "cookie") || equalFold(name, "pragma")
	case 7:
		return equalFold(name, "trailer") || equalFold(name, "upgrade")
	case 10:
		return equalFold(name, "connection") || equalFold(name, "set-cookie") || equalFold(name, "keep-alive")
	case 12:
		return equalFold(name, "content-type") || equalFold(name, "max-forwards")
	case 13:
		return equalFold(name, "authorization") || equalFold(name, "content-range") || equalFold(name, "cache-control")
	case 14:
		return equalFold(name, "content-length")
	case 16:
		return equalFold(name, "content-encoding") || equalFold(name, "www-authenticate")
	case 17:
		return equalFold(name, "transfer-encoding")
	case 18:
		return equalFold(name, "proxy-authenticate")
	case 19:
		return equalFold(name, "proxy-authorization")
	}
	return false
}
