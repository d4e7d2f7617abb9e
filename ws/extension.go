package ws

import (
	"errors"
	"strconv"
	"strings"

	"github.com/spindleloop/spindle/internal/deflate"
)

// extension is what was agreed on: permessage-deflate without context takeover, or
// nothing.
type extension struct {
	deflate bool
	window  int  // bits of our window; 0 for the largest
	told    bool // the peer asked for a window, and is to be told
}

// The words of RFC 7692.
const (
	perMessageDeflate = "permessage-deflate"
	serverNoContext   = "server_no_context_takeover"
	clientNoContext   = "client_no_context_takeover"
	serverWindow      = "server_max_window_bits"
	clientWindow      = "client_max_window_bits"
)

// offer is what a client asks for: neither side keeps a context, so that neither
// has to keep a compressor.
const offer = perMessageDeflate + "; " + serverNoContext + "; " + clientNoContext

// accepted is the server's answer.
func (x extension) accepted() string {
	s := offer
	if x.told {
		s += "; " + serverWindow + "=" + strconv.Itoa(x.window)
	}
	return s
}

var errExtensions = errors.New("malformed Sec-WebSocket-Extensions")

// acceptOffer is a server's choice: the first of the client's offers that it can
// meet. An offer with anything unknown in it is passed over.
func acceptOffer(fields []string) (x extension, err error) {
	offers, err := parseExtensions(fields)
	if err != nil {
		return x, err
	}
	for _, o := range offers {
		if x, ok := o.meet(); ok {
			return x, nil
		}
	}
	return extension{}, nil
}

// meet is what a server can agree to of an offer.
func (e offered) meet() (x extension, ok bool) {
	if e.name != perMessageDeflate {
		return x, false
	}
	x.deflate = true
	for i, p := range e.params {
		if e.repeats(i) {
			return x, false
		}
		switch {
		case (p.name == serverNoContext || p.name == clientNoContext) && !p.given:
		case p.name == serverWindow && p.given:
			if x.window, ok = windowBits(p.value); !ok {
				return x, false
			}
			x.told = true
		case p.name == clientWindow: // we can read any
			if _, ok := windowBits(p.value); p.given && !ok {
				return x, false
			}
		default:
			return x, false
		}
	}
	return x, true
}

var (
	errNotOffered = errors.New("the server has accepted an extension that was not offered")
	errAccepted   = errors.New("the server has accepted permessage-deflate with parameters that were not offered")
)

// checkAccepted judges a server's answer to offer, if there was one.
func checkAccepted(fields []string, offered bool) (x extension, err error) {
	answers, err := parseExtensions(fields)
	if err != nil || len(answers) == 0 {
		return x, err
	}
	if len(answers) > 1 || !offered || answers[0].name != perMessageDeflate {
		return x, errNotOffered
	}
	e := answers[0]
	alone := false
	for i, p := range e.params {
		if e.repeats(i) {
			return x, errAccepted
		}
		switch {
		case p.name == serverNoContext && !p.given:
			alone = true
		case p.name == clientNoContext && !p.given:
		case p.name == serverWindow && p.given:
			if _, ok := windowBits(p.value); !ok {
				return x, errAccepted
			}
		default: // clientWindow among it: that is for who has offered it
			return x, errAccepted
		}
	}
	if !alone {
		return x, errAccepted
	}
	return extension{deflate: true}, nil
}

// windowBits is a number from 8 to 15, without zeros before it.
func windowBits(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= 8 && n <= deflate.MaxWindow && strconv.Itoa(n) == s
}

// offered is an element of Sec-WebSocket-Extensions.
type offered struct {
	name   string
	params []param
}

type param struct {
	name, value string
	given       bool // it has a value
}

// repeats tells whether the parameter at i was there before.
func (e offered) repeats(i int) bool {
	for _, p := range e.params[:i] {
		if p.name == e.params[i].name {
			return true
		}
	}
	return false
}

// parseExtensions reads Sec-WebSocket-Extensions by its grammar.
func parseExtensions(fields []string) (list []offered, err error) {
	for _, field := range fields {
		s := scanner{field}
		for {
			s.space()
			if s.rest == "" {
				break
			}
			if s.char(',') { // an empty element, which lists may have
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

// scanner reads a field's value from its beginning.
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
func (s *scanner) extension() (e offered, ok bool) {
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
			p.given = true
			if p.value, ok = s.value(); !ok {
				return e, false
			}
		}
		e.params = append(e.params, p)
	}
	return e, true
}

// value reads a token, or a quoted one.
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

// isToken tells whether s is one.
func isToken(s string) bool {
	for i := range len(s) {
		if !isTokenChar(s[i]) {
			return false
		}
	}
	return s != ""
}
