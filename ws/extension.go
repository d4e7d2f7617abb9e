package ws

import (
	"errors"
	"strconv"
	"strings"

	"github.com/spindleloop/spindle/ws/internal/deflate"
)

// extension is the negotiated extension: permessage-deflate without context
// takeover, or none.
type extension struct {
	deflate    bool
	window     int  // bits of our compression window; 0 for the maximum
	echoWindow bool // the client requested a window, so the response must state it
}

// Names in RFC 7692.
const (
	perMessageDeflate = "permessage-deflate"
	serverNoContext   = "server_no_context_takeover"
	clientNoContext   = "client_no_context_takeover"
	serverWindow      = "server_max_window_bits"
	clientWindow      = "client_max_window_bits"
)

// offer is a client's offer. Neither side keeps a context, so neither has to keep a
// compressor.
const offer = perMessageDeflate + "; " + serverNoContext + "; " + clientNoContext

// response returns the server's response to an offer.
func (x extension) response() string {
	s := offer
	if x.echoWindow {
		s += "; " + serverWindow + "=" + strconv.Itoa(x.window)
	}
	return s
}

var errExtensions = errors.New("malformed Sec-WebSocket-Extensions")

// acceptOffer returns the first of the client's offers that the server can accept.
// It ignores offers with unknown parameters.
func acceptOffer(fields []string) (x extension, err error) {
	offers, err := parseExtensions(fields)
	if err != nil {
		return x, err
	}
	for _, o := range offers {
		if x, ok := o.accept(); ok {
			return x, nil
		}
	}
	return extension{}, nil
}

// accept returns the extension to respond with. Ok is false if the server cannot
// accept the offer.
func (e extensionElement) accept() (x extension, ok bool) {
	if e.name != perMessageDeflate {
		return x, false
	}
	x.deflate = true
	for i, p := range e.params {
		if e.isDuplicate(i) {
			return x, false
		}
		switch {
		case (p.name == serverNoContext || p.name == clientNoContext) && !p.hasValue:
		case p.name == serverWindow && p.hasValue:
			if x.window, ok = windowBits(p.value); !ok {
				return x, false
			}
			x.echoWindow = true
		case p.name == clientWindow: // any window can be read
			if _, ok := windowBits(p.value); p.hasValue && !ok {
				return x, false
			}
		default:
			return x, false
		}
	}
	return x, true
}

var (
	errNotOffered    = errors.New("the server has accepted an extension that was not offered")
	errBadParameters = errors.New("the server has accepted permessage-deflate with parameters that were not offered")
)

// checkAccepted checks a server's response to offer. Offered is whether offer was
// sent.
func checkAccepted(fields []string, offered bool) (x extension, err error) {
	answers, err := parseExtensions(fields)
	if err != nil || len(answers) == 0 {
		return x, err
	}
	if len(answers) > 1 || !offered || answers[0].name != perMessageDeflate {
		return x, errNotOffered
	}
	e := answers[0]
	serverNoTakeover := false
	for i, p := range e.params {
		if e.isDuplicate(i) {
			return x, errBadParameters
		}
		switch {
		case p.name == serverNoContext && !p.hasValue:
			serverNoTakeover = true
		case p.name == clientNoContext && !p.hasValue:
		case p.name == serverWindow && p.hasValue:
			if _, ok := windowBits(p.value); !ok {
				return x, errBadParameters
			}
		default: // includes clientWindow, which was not offered
			return x, errBadParameters
		}
	}
	if !serverNoTakeover {
		return x, errBadParameters
	}
	return extension{deflate: true}, nil
}

// windowBits parses a number from 8 to 15 without leading zeros.
func windowBits(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= 8 && n <= deflate.MaxWindow && strconv.Itoa(n) == s
}

// extensionElement is an element of Sec-WebSocket-Extensions.
type extensionElement struct {
	name   string
	params []param
}

type param struct {
	name, value string
	hasValue    bool
}

// isDuplicate reports whether the parameter at i occurred before.
func (e extensionElement) isDuplicate(i int) bool {
	for _, p := range e.params[:i] {
		if p.name == e.params[i].name {
			return true
		}
	}
	return false
}

// parseExtensions parses Sec-WebSocket-Extensions.
func parseExtensions(fields []string) (list []extensionElement, err error) {
	for _, field := range fields {
		s := scanner{field}
		for {
			s.space()
			if s.rest == "" {
				break
			}
			if s.char(',') { // lists may have empty elements
				continue
			}
			e, ok := s.extension()
			if !ok {
				return nil, errExtensions
			}
			list = append(list, e)
			if s.rest != "" && !s.char(',') {
				return nil, errExtensions
			}
		}
	}
	return list, nil
}

// scanner consumes a field's value from the start.
type scanner struct{ rest string }

func (s *scanner) space() { s.rest = strings.TrimLeft(s.rest, " \t") }

func (s *scanner) char(c byte) bool {
	if s.rest == "" || s.rest[0] != c {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

func (s *scanner) token() string {
	n := 0
	for n < len(s.rest) && isTokenChar(s.rest[n]) {
		n++
	}
	t := s.rest[:n]
	s.rest = s.rest[n:]
	return t
}

// extension reads a name and its parameters.
func (s *scanner) extension() (e extensionElement, ok bool) {
	if e.name = s.token(); e.name == "" {
		return e, false
	}
	for s.space(); s.char(';'); s.space() {
		s.space()
		p := param{name: s.token()}
		if p.name == "" {
			return e, false
		}
		s.space()
		if s.char('=') {
			s.space()
			p.hasValue = true
			if p.value, ok = s.value(); !ok {
				return e, false
			}
		}
		e.params = append(e.params, p)
	}
	return e, true
}

// value reads a token or a quoted token.
func (s *scanner) value() (string, bool) {
	if !s.char('"') {
		t := s.token()
		return t, t != ""
	}
	t := s.token()
	return t, t != "" && s.char('"')
}

func isTokenChar(c byte) bool {
	switch {
	case c >= '0' && c <= '9', c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z':
		return true
	}
	return strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// isToken reports whether s is a token as HTTP defines it.
func isToken(s string) bool {
	for i := range len(s) {
		if !isTokenChar(s[i]) {
			return false
		}
	}
	return s != ""
}
