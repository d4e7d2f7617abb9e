package http1_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/internal/http1"
)

func responseParser() parser      { return http1.NewResponseParser(http1.Limits{}) }
func smallResponseParser() parser { return http1.NewResponseParser(small) }

func TestBodiesOfResponses(t *testing.T) {
	for _, c := range []struct {
		name, method, stream string
		body                 string
		complete             bool
		keepAlive            bool
		remaining            string // bytes after the response
	}{
		{"length", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcNEXT", "abc", true, true, "NEXT"},
		{"length zero", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nNEXT", "", true, true, "NEXT"},
		{"chunked", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\nNEXT", "abc", true, true, "NEXT"},
		{"until close", "GET", "HTTP/1.1 200 OK\r\n\r\nabc", "abc", false, false, ""},
		{"HEAD with a length", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nNEXT", "", true, true, "NEXT"},
		{"HEAD with chunks", "HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nNEXT", "", true, true, "NEXT"},
		{"HEAD without a length", "HEAD", "HTTP/1.1 200 OK\r\n\r\nNEXT", "", true, true, "NEXT"},
		{"204", "GET", "HTTP/1.1 204 No Content\r\n\r\nNEXT", "", true, true, "NEXT"},
		{"204 with a length", "GET", "HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\nNEXT", "", true, true, "NEXT"},
		{"304 with a length", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\nNEXT", "", true, true, "NEXT"},
		{"103", "GET", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nNEXT", "", true, true, "NEXT"},
		{"CONNECT refused", "CONNECT", "HTTP/1.1 403 No\r\nContent-Length: 1\r\n\r\naNEXT", "a", true, true, "NEXT"},
		{"close", "GET", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na", "a", true, false, ""},
		{"HTTP/1.0", "GET", "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", "a", true, false, ""},
		{"HTTP/1.0 with keep-alive", "GET", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\na", "a", true, true, ""},
		{"HTTP/1.0 until close", "GET", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\na", "a", false, false, ""},
		{"no reason", "GET", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", "", true, true, ""},
		{"an empty reason", "GET", "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", "", true, true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := http1.NewResponseParser(http1.Limits{})
			p.Answering(c.method)
			o := read(t, p, strings.TrimSuffix(c.stream, c.remaining), whole)
			if o.err != nil || len(o.messages) != 1 {
				t.Fatal(o.err, o.messages)
			}
			m := o.messages[0]
			if m.body != c.body || m.complete != c.complete || m.keepAlive != c.keepAlive || o.idle != c.complete {
				t.Errorf("%+v, idle %v", m, o.idle)
			}
			if !c.complete {
				if event, err := p.EOF(); event != http1.End || err != nil || !p.Idle() {
					t.Errorf("EOF: %v, %v", event, err)
				}
			}
		})
	}
}

func TestInterimResponsesComeBeforeTheirResponse(t *testing.T) {
	stream := "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" +
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
	p := http1.NewResponseParser(http1.Limits{})
	p.Answering("HEAD") // applies to the first final response, not to the one after it
	o := read(t, p, stream, whole)
	if len(o.messages) != 4 || o.err != nil || o.messages[2].body != "" || o.messages[2].length != 5 || o.messages[3].body != "hi" {
		t.Errorf("%+v", o)
	}
}

func TestSwitchDoesNotUseTheFollowingBytes(t *testing.T) {
	for method, head := range map[string]string{
		"GET":     "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
		"CONNECT": "HTTP/1.1 200 OK\r\n\r\n",
	} {
		p := http1.NewResponseParser(http1.Limits{})
		p.Answering(method)
		o := read(t, p, head+"rest", whole)
		if !o.switched || o.remaining != 4 || len(o.messages) != 1 {
			t.Errorf("%s: %+v", method, o)
		}
		if n, event, err := p.Parse([]byte("rest")); n != 0 || event != http1.Switch || err != nil {
			t.Errorf("%s: the next Parse returned %d, %v, %v", method, n, event, err)
		}
		if event, err := p.EOF(); event != http1.Switch || err != nil {
			t.Errorf("%s: EOF returned %v, %v", method, event, err)
		}
	}
}

// hostileResponses has invalid responses. Most of them net/http refuses too.
var hostileResponses = []struct {
	stream string
	err    error
}{
	{"XTTP/1.1 200 OK\r\n", http1.ErrStatusLine},
	{"HTTP/1.1  200 OK\r\n", http1.ErrStatusLine},
	{"HTTP/1.1 20 OK\r\n", http1.ErrStatusLine},
	{"HTTP/1.1 2000 OK\r\n", http1.ErrStatusLine},
	{"HTTP/1.1 099 OK\r\n", http1.ErrStatusLine},
	{"HTTP/1.1 2x0 OK\r\n", http1.ErrStatusLine},
	{"HTTP/1.1 200 a\x00b\r\n", http1.ErrStatusLine},
	{"HTTP/1.1\r\n", http1.ErrStatusLine},
	{"HTTP/1.x 200 OK\r\n", http1.ErrStatusLine},
	{"HTTP/2.0 200 OK\r\n", http1.ErrVersionUnsupported},
	{"HTTP/1.2 200 OK\r\n", http1.ErrVersionUnsupported},
	{"HTTP/1.1 200 OK\n", http1.ErrBareLF},
	{"HTTP/1.1 200 " + strings.Repeat("a", 9000), http1.ErrStatusLineTooLong},
	{"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", http1.ErrContentLengthRepeated},
	{"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", http1.ErrLengthWithEncoding},
	{"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", http1.ErrTransferCoding},
	{"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", http1.ErrTransferEncoding10},
	{"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", http1.ErrFieldFold},
}

func TestHostileResponsesAreRefused(t *testing.T) {
	for _, h := range hostileResponses {
		for _, pieceSize := range []func(int) int{whole, func(int) int { return 1 }} {
			if o := read(t, responseParser(), h.stream, pieceSize); !errors.Is(o.err, h.err) {
				t.Errorf("%.60q: error %v, want %v", h.stream, o.err, h.err)
			}
		}
	}
}

// stricterResponses has the errors for responses that net/http accepts.
var stricterResponses = []error{
	http1.ErrStatusLine, http1.ErrVersionUnsupported, http1.ErrStatusLineTooLong, http1.ErrBareLF, http1.ErrFieldFold,
	http1.ErrFieldSpace, http1.ErrContentLengthRepeated, http1.ErrLengthWithEncoding, http1.ErrTransferEncoding10,
	http1.ErrChunkSize, http1.ErrChunkExtension, http1.ErrChunkExtensionTooLarge, http1.ErrTrailerField, http1.ErrHeaderTooLarge, http1.ErrTooManyFields,
}

// compareResponse compares how this package and net/http read one response.
func compareResponse(t testing.TB, stream string, head bool) {
	t.Helper()
	p := http1.NewResponseParser(http1.Limits{})
	req := &http.Request{Method: "GET"}
	if head {
		p.Answering("HEAD")
		req.Method = "HEAD"
	}
	o := read(t, p, stream, whole)
	if event, _ := p.EOF(); event == http1.End {
		o.messages[len(o.messages)-1].complete = true
	}
	source := bufio.NewReader(strings.NewReader(stream))
	res, err := http.ReadResponse(source, req)
	var body []byte
	if err == nil {
		body, err = io.ReadAll(res.Body)
	}
	ours := len(o.messages) > 0 && o.messages[0].complete
	switch {
	case err != nil && ours:
		t.Errorf("%q: net/http refuses it, http1 accepts it: %v", stream, err)
	case err == nil && !ours:
		for _, listed := range stricterResponses {
			if o.err == listed {
				return
			}
		}
		t.Errorf("%q: net/http accepts it, http1 refuses it: %v", stream, o.err)
	case err == nil:
		a, status := normalized(o.messages[0]), res.Status
		if len(status) == 3 {
			status += " "
		}
		b := normalized(message{
			first: fmt.Sprintf("%s %s", res.Proto, status), header: res.Header, body: string(body), trailers: res.Trailer, keepAlive: !res.Close,
		})
		a.used, a.complete, a.length = 0, false, 0
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%q\nread by http1:\n%+v\nread by net/http:\n%+v", stream, a, b)
		}
	}
}

var statusLines = []string{
	"HTTP/1.1 200 OK", "HTTP/1.1 200 OK", "HTTP/1.0 200 OK", "HTTP/1.1 204 No Content", "HTTP/1.1 304 Not Modified", "HTTP/1.1 404", "HTTP/1.1 200 ", "HTTP/1.1 999 x\ty\xff",
	"HTTP/1.1 099 x", "HTTP/1.1  200 OK", "HTTP/2.0 200 OK", "HTTP/1.1 2 OK", "HTTP/1.1 100 Continue", "http/1.1 200 OK",
}

func randomResponse(r *rand.Rand) string {
	return damaged(r, pick(r, statusLines)+"\r\n"+randomFields(r, "Server: a\r\n"))
}

func TestRandomResponsesReadAsByNetHTTP(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 5))
	for i := range rounds(20000) {
		compareResponse(t, randomResponse(r), i%2 == 0)
		if t.Failed() {
			return
		}
	}
}

func TestResponsesDoNotDependOnTheirPieces(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 5))
	for range rounds(8000) {
		stream := randomResponse(r)
		checkSplits(t, responseParser, stream, r)
		checkSplits(t, smallResponseParser, stream, r)
		if t.Failed() {
			return
		}
	}
}
