package http1_test

import (
	"net/http"
	"testing"

	"github.com/spindleloop/spindle/internal/http1"
)

func TestTargetAndAddToReturnsWhatTargetAndAddToDo(t *testing.T) {
	for _, request := range []string{
		"GET /a?b HTTP/1.1\r\nHost: h\r\n\r\n",
		"GET /a?b HTTP/1.1\r\nHost: h\r\nAccept: x\r\naccept: y\r\n\r\n",
		"GET /a HTTP/1.0\r\n\r\n",
		"GET http://h/a HTTP/1.1\r\nX: 1\r\nHost: h\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: h\r\nX: \r\n\r\n",
	} {
		for cut := range len(request) { // a cut request is parsed from a copy
			p := http1.NewRequestParser(http1.Limits{})
			if event := parsed(t, p, request[:cut], request[cut:]); event != http1.Head {
				t.Fatalf("%q cut at %d: event %v, want Head", request, cut, event)
			}
			separate, together := http.Header{}, http.Header{}
			p.AddTo(separate)
			target := p.TargetAndAddTo(together)
			if target != string(p.Target()) || len(separate) != len(together) {
				t.Errorf("%q cut at %d: target %q, header %v, want %q and %v", request, cut, target, together, p.Target(), separate)
			}
			for key, values := range separate {
				if got := together[key]; len(got) != len(values) || got[0] != values[0] || got[len(got)-1] != values[len(values)-1] {
					t.Errorf("%q cut at %d: %s is %q, want %q", request, cut, key, got, values)
				}
			}
		}
	}
}

// parsed returns the first event of parts that is not More.
func parsed(t *testing.T, p *http1.RequestParser, parts ...string) http1.Event {
	for _, part := range parts {
		_, event, err := p.Parse([]byte(part))
		if err != nil {
			t.Fatal(err)
		}
		if event != http1.More {
			return event
		}
	}
	return http1.More
}
