package http1

import (
	"bytes"
	"math"
)

// keepHost is the length of the longest host that is not checked when it comes again.
const keepHost = 64

// interpretField records what a field says about the framing of the message and about
// its connection. A name that is added here must be added to interpreted.
func (p *parser) interpretField(name []byte, at span, value []byte) *Error {
	switch {
	case equalFold(name, "host"):
		if p.responses {
			return nil
		}
		if p.facts&sawHost != 0 {
			return ErrHostRepeated
		}
		p.facts |= sawHost
		if len(value) > 0 && string(value) != string(p.known) {
			if !validHost(value) {
				return ErrHost
			}
			if len(value) <= keepHost {
				p.known = append(p.known[:0], value...)
			}
		}
		if p.host.to == 0 { // an absolute target takes precedence
			p.host = at
		}
	case equalFold(name, "connection"):
		p.facts |= connection(value)
	case equalFold(name, "content-length"):
		if p.facts&sawLength != 0 {
			return ErrContentLengthRepeated
		}
		p.facts |= sawLength
		n, ok := decimal(value)
		if !ok {
			return ErrContentLength
		}
		p.length = n
	case equalFold(name, "transfer-encoding"):
		switch {
		case p.facts&sawEncoding != 0:
			p.facts |= malformedCoding
		case equalFold(value, "chunked"):
			p.facts |= chunked
		case areCodings(value):
			p.facts |= unsupportedCoding
		default:
			p.facts |= malformedCoding
		}
		p.facts |= sawEncoding
	case equalFold(name, "expect"):
		switch {
		case len(value) == 0: // the same as no field
		case equalFold(value, "100-continue"):
			p.facts |= sawExpect
		default:
			p.facts |= sawExpect | unknownExpectation
		}
	case equalFold(name, "trailer"):
		p.facts |= sawTrailer
		if declaresFraming(value) {
			p.facts |= forbiddenTrailer
		}
	}
	return nil
}

// finishHead checks a complete head and selects how its body is read.
func (p *parser) finishHead() *Error {
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
		if f&unknownExpectation != 0 {
			return ErrExpectation
		}
		p.frameBody()
	}
	if p.state == atLength && p.limits.BodyBytes > 0 && p.length > p.limits.BodyBytes {
		return ErrBodyTooLarge
	}
	return nil
}

// frameBody selects how the body is read, for a message that may have one.
func (p *parser) frameBody() {
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

// KeepAlive reports whether the connection can be used after this message. That depends
// on the version, on Connection and, for a response, on how its body ends.
func (p *parser) KeepAlive() bool {
	if p.version == HTTP10 && p.facts&connKeepAlive == 0 {
		return false
	}
	return p.facts&(connClose|untilClose) == 0
}

// Chunked reports whether the body is chunked, so that trailers may follow it.
func (p *parser) Chunked() bool { return p.facts&chunked != 0 }

// Version returns the message's version.
func (p *parser) Version() Version { return p.version }

// Data returns the piece of the body for which Parse has just returned the event Data.
func (p *parser) Data() []byte { return p.data }

// connection returns the facts in a Connection field.
func connection(value []byte) (f facts) {
	for list := value; len(list) > 0; {
		var option []byte
		option, list, _ = bytes.Cut(list, comma)
		switch option = trimSpace(option); {
		case equalFold(option, "close"):
			f |= connClose
		case equalFold(option, "keep-alive"):
			f |= connKeepAlive
		case equalFold(option, "upgrade"):
			f |= connUpgrade
		}
	}
	return f
}

var comma = []byte(",")

// decimal returns the value of one or more digits. It accepts no sign, list or space,
// because programs read those differently.
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

// areCodings reports whether value is a well-formed list of transfer codings: chunked
// occurs at most once, as the last. It need not be supported.
func areCodings(value []byte) bool {
	for list := value; ; {
		coding, rest, more := bytes.Cut(list, comma)
		token, _, parameters := bytes.Cut(trimSpace(coding), semicolon)
		token = trimSpace(token)
		if !isToken(token) || equalFold(token, "chunked") && (more || parameters) {
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
