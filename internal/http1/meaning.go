package http1

import (
	"bytes"
	"math"
)

// note takes down what a field says about the message itself. A name that is added
// here is to be added to noted.
func (p *parser) note(name []byte, at span, value []byte) *Error {
	switch {
	case fold(name, "host"):
		if p.responses {
			return nil
		}
		if p.facts&sawHost != 0 {
			return ErrHostRepeated
		}
		p.facts |= sawHost
		if len(value) > 0 && !validHost(value) {
			return ErrHost
		}
		if p.host.to == 0 { // an absolute target is stronger
			p.host = at
		}
	case fold(name, "connection"):
		p.facts |= connection(value)
	case fold(name, "content-length"):
		if p.facts&sawLength != 0 {
			return ErrContentLengthRepeated
		}
		p.facts |= sawLength
		n, ok := decimal(value)
		if !ok {
			return ErrContentLength
		}
		p.length = n
	case fold(name, "transfer-encoding"):
		switch {
		case p.facts&sawEncoding != 0:
			p.facts |= malformedCoding
		case fold(value, "chunked"):
			p.facts |= chunked
		case areCodings(value):
			p.facts |= unsupportedCoding
		default:
			p.facts |= malformedCoding
		}
		p.facts |= sawEncoding
	case fold(name, "expect"):
		switch {
		case len(value) == 0: // as if it were not there
		case fold(value, "100-continue"):
			p.facts |= sawExpect
		default:
			p.facts |= sawExpect | foreignExpectation
		}
	case fold(name, "trailer"):
		p.facts |= sawTrailer
		if declaresFraming(value) {
			p.facts |= forbiddenTrailer
		}
	}
	return nil
}

// understand decides, at the end of a head, what it means as a whole.
func (p *parser) understand() *Error {
	f := p.facts
	switch {
	case f&sawEncoding != 0 && p.version == HTTP10:
		return ErrTransferEncoding10
	case f&sawEncoding != 0 && f&sawLength != 0:
		return ErrLengthWithEncoding
	case f&malformedCoding != 0:
		return ErrTransferEncoding
	case f&unsupportedCoding != 0:
		return ErrTransferCoding
	case f&chunked != 0 && f&forbiddenTrailer != 0:
		return ErrTrailerDeclaration
	}
	if p.responses {
		p.frameResponse()
	} else {
		if f&sawHost == 0 && p.version == HTTP11 {
			return ErrHostMissing
		}
		if f&foreignExpectation != 0 {
			return ErrExpectation
		}
		p.frame()
	}
	if p.state == atLength && p.limits.BodyBytes > 0 && p.length > p.limits.BodyBytes {
		return ErrBodyTooLarge
	}
	return nil
}

// frame sets where the body goes from here, for a message that may have one.
func (p *parser) frame() {
	switch {
	case p.facts&chunked != 0:
		p.state = atChunkSize
		p.size, p.digits, p.extension, p.total = 0, 0, 0, 0
	case p.length > 0:
		p.state = atLength
		p.remaining = p.length
	default:
		p.state = atEnd
	}
}

// KeepAlive reports whether the connection can be used after this message: what
// the version and Connection say and, for a response, how its body ends.
func (p *parser) KeepAlive() bool {
	if p.version == HTTP10 && p.facts&connKeepAlive == 0 {
		return false
	}
	return p.facts&(connClose|untilClose) == 0
}

// Chunked reports whether the body comes in chunks, and so with trailers.
func (p *parser) Chunked() bool { return p.facts&chunked != 0 }

// Version is the message's.
func (p *parser) Version() Version { return p.version }

// Data is the piece of the body that Parse has just returned Data for.
func (p *parser) Data() []byte { return p.data }

// connection is what a Connection field says.
func connection(value []byte) (f facts) {
	for list := value; len(list) > 0; {
		var option []byte
		option, list, _ = bytes.Cut(list, comma)
		switch option = trimSpace(option); {
		case fold(option, "close"):
			f |= connClose
		case fold(option, "keep-alive"):
			f |= connKeepAlive
		case fold(option, "upgrade"):
			f |= connUpgrade
		}
	}
	return f
}

var comma = []byte(",")

// decimal is the value of one or more digits. There is no sign, no list and no
// space in a length that all programs read alike.
func decimal(b []byte) (n int64, ok bool) {
	for _, c := range b {
		d := int64(c - '0')
		if d > 9 || n > (math.MaxInt64-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, len(b) > 0
}

// areCodings reports whether value is a list of transfer codings that has chunked at
// most once, as the last: well formed, if not supported.
func areCodings(value []byte) bool {
	for list := value; ; {
		coding, rest, more := bytes.Cut(list, comma)
		token, _, parameters := bytes.Cut(trimSpace(coding), semicolon)
		token = trimSpace(token)
		if !isToken(token) || fold(token, "chunked") && (more || parameters) {
			return false
		}
		if !more {
			return true
		}
		list = rest
	}
}

var semicolon = []byte(";")

func isToken(b []byte) bool {
	for _, c := range b {
		if class[c]&inToken == 0 {
			return false
		}
	}
	return len(b) > 0
}

// declaresFraming reports whether a Trailer field names one of those that would
// change where the message ends.
func declaresFraming(value []byte) bool {
	for list := value; len(list) > 0; {
		var name []byte
		name, list, _ = bytes.Cut(list, comma)
		switch name = trimSpace(name); {
		case fold(name, "transfer-encoding"), fold(name, "content-length"), fold(name, "trailer"):
			return true
		}
	}
	return false
}

// MayTrail reports whether a field of that name may be a trailer.
func MayTrail(name string) bool { return name != "" && !neverTrailer([]byte(name)) }

// neverTrailer reports whether a field must come before the body to be of any use,
// or could change how the message is read: framing, routing, authentication,
// control data and what the content is (RFC 9110, section 6.5.1).
func neverTrailer(name []byte) bool {
	switch len(name) {
	case 2:
		return fold(name, "te")
	case 4:
		return fold(name, "host")
	case 5:
		return fold(name, "range")
	case 6:
		return fold(name, "expect") || fold(name, "cookie") || fold(name, "pragma")
	case 7:
		return fold(name, "trailer") || fold(name, "upgrade")
	case 10:
		return fold(name, "connection") || fold(name, "set-cookie") || fold(name, "keep-alive")
	case 12:
		return fold(name, "content-type") || fold(name, "max-forwards")
	case 13:
		return fold(name, "authorization") || fold(name, "content-range") || fold(name, "cache-control")
	case 14:
		return fold(name, "content-length")
	case 16:
		return fold(name, "content-encoding") || fold(name, "www-authenticate")
	case 17:
		return fold(name, "transfer-encoding")
	case 18:
		return fold(name, "proxy-authenticate")
	case 19:
		return fold(name, "proxy-authorization")
	}
	return false
}
