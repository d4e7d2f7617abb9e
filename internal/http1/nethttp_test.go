package http1_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/internal/http1"
)

// stricter has the errors for requests that net/http accepts, each with examples. The
// reasons are in docs/design/013-http1.md.
var stricter = []struct {
	name     string
	err      error
	examples []string
}{
	{"ErrTarget", http1.ErrTarget, []string{
		"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET * HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET ftp://a/b HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET mailto:a HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET http://u:p@a/b HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET http://a%c3%bc/b HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET http://\xc3\xbc/b HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET http:///b HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET http:/b HTTP/1.1\r\nHost: a\r\n\r\n",
		"CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n",
		"CONNECT /a HTTP/1.1\r\nHost: a\r\n\r\n",
		"CONNECT a:1/b HTTP/1.1\r\nHost: a\r\n\r\n",
	}},
	{"ErrVersionUnsupported", http1.ErrVersionUnsupported, []string{"GET / HTTP/1.2\r\nHost: a\r\n\r\n"}},
	{"ErrBareLF", http1.ErrBareLF, []string{"GET / HTTP/1.1\nHost: a\n\n", "GET / HTTP/1.1\r\nHost: a\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\n"}},
	{"ErrFieldFold", http1.ErrFieldFold, []string{"GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n c\r\n\r\n"}},
	{"ErrHostMissing", http1.ErrHostMissing, []string{"GET / HTTP/1.1\r\n\r\n", "CONNECT a:1 HTTP/1.1\r\n\r\n"}},
	{"ErrHost", http1.ErrHost, []string{"GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"}},
	{"ErrContentLengthRepeated", http1.ErrContentLengthRepeated, []string{"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n"}},
	{"ErrLengthWithEncoding", http1.ErrLengthWithEncoding, []string{"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"}},
	{"ErrTransferEncoding10", http1.ErrTransferEncoding10, []string{"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"}},
	{"ErrExpectation", http1.ErrExpectation, []string{"GET / HTTP/1.1\r\nHost: a\r\nExpect: the worst\r\n\r\n"}},
	{"ErrChunkSize", http1.ErrChunkSize, []string{chunkedHead + "0 \r\n\r\n", chunkedHead + "1\t\r\na\r\n0\r\n\r\n"}},
	{"ErrChunkExtension", http1.ErrChunkExtension, []string{chunkedHead + "0;a=\x00\r\n\r\n", chunkedHead + "0;\x7f\r\n\r\n"}},
	{"ErrTrailerField", http1.ErrTrailerField, []string{chunkedHead + "0\r\nContent-Length: 5\r\n\r\n", chunkedHead + "0\r\nHost: b\r\n\r\n"}},
	{"ErrFieldSpace", http1.ErrFieldSpace, []string{chunkedHead + "0\r\nA B: c\r\n\r\n"}},

	// Limits that net/http has not, or has larger.
	{"ErrRequestLineTooLong", http1.ErrRequestLineTooLong, []string{"GET /" + strings.Repeat("a", 8192) + " HTTP/1.1\r\nHost: a\r\n\r\n"}},
	{"ErrHeaderTooLarge", http1.ErrHeaderTooLarge, []string{"GET / HTTP/1.1\r\nHost: a\r\nA: " + strings.Repeat("a", 65536) + "\r\n\r\n"}},
	{"ErrTooManyFields", http1.ErrTooManyFields, []string{"GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("A: b\r\n", 128) + "\r\n"}},
	{"ErrChunkExtensionTooLarge", http1.ErrChunkExtensionTooLarge, []string{chunkedHead + "0;" + strings.Repeat("a", 1025) + "\r\n\r\n"}},
}

const chunkedHead = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"

func TestStricterErrorsAreDocumentedWithExamples(t *testing.T) {
	text, err := os.ReadFile("../../docs/design/013-http1.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stricter {
		for _, example := range s.examples {
			if theirs := netHTTP(example); len(theirs) != 1 || theirs[0].err != nil {
				t.Errorf("%.80q: net/http refuses it too: %v", example, theirs)
			}
			if ours := readRequests(t, example); ours.err != s.err {
				t.Errorf("%.80q: error %v, want %v", example, ours.err, s.err)
			}
		}
		if !strings.Contains(string(text), "`"+s.name+"`") {
			t.Errorf("the design page does not explain %s", s.name)
		}
	}
}

func listedAsStricter(err error) bool {
	for _, s := range stricter {
		if s.err == err {
			return true
		}
	}
	return false
}

// theirs is a request as net/http reads it.
type theirs struct {
	message
	err error // the error of the head or the body
}

// netHTTP reads the requests of a stream with net/http, until one is refused,
// incomplete, or the last of the connection.
func netHTTP(stream string) (all []theirs) {
	source := strings.NewReader(stream)
	br := bufio.NewReader(source)
	for {
		req, err := http.ReadRequest(br)
		if err == io.EOF {
			return all
		}
		if err == nil {
			err = asServer(req)
		}
		if err != nil {
			return append(all, theirs{err: err})
		}
		m := message{
			first: fmt.Sprintf("%s %s %s", req.Method, req.RequestURI, req.Proto), host: req.Host,
			header: req.Header, length: req.ContentLength, keepAlive: !req.Close,
		}
		body, err := io.ReadAll(req.Body)
		m.body, m.trailers, m.complete = string(body), req.Trailer, err == nil
		m.used = len(stream) - source.Len() - br.Buffered()
		all = append(all, theirs{m, err})
		if err != nil || req.Close {
			return all
		}
	}
}

// asServer makes the checks of net/http's server that ReadRequest does not make. It
// cannot check Host, which net/http removes from the header.
func asServer(req *http.Request) error {
	if req.ProtoMajor != 1 {
		return errors.New("version")
	}
	for name := range req.Header {
		if strings.Contains(name, " ") {
			return errors.New("name")
		}
	}
	return nil
}

// compare compares how this package and net/http read a stream of requests.
func compare(t testing.TB, stream string) {
	t.Helper()
	ours := readRequests(t, stream)
	all := netHTTP(stream)
	for i, their := range all {
		if i >= len(ours.messages) || !ours.messages[i].complete {
			if their.err != nil {
				return // both refuse the request, or need more input
			}
			if !listedAsStricter(ours.err) {
				t.Errorf("%q\nmessage %d: net/http accepts it, http1 refuses it: %v", stream, i, ours.err)
			}
			return
		}
		if their.err != nil {
			t.Errorf("%q\nmessage %d: net/http refuses it, http1 accepts it: %v", stream, i, their.err)
			return
		}
		if a, b := normalized(ours.messages[i]), normalized(their.message); !reflect.DeepEqual(a, b) {
			t.Errorf("%q\nmessage %d read by http1:\n%+v\nread by net/http:\n%+v", stream, i, a, b)
			return
		}
	}
	if last := len(all) - 1; len(ours.messages) > len(all) && (last < 0 || all[last].keepAlive) {
		t.Errorf("%q\nhttp1 reads %d messages, net/http %d", stream, len(ours.messages), len(all))
	}
}

// normalized returns m without the fields that net/http does not have, in a form that
// can be compared.
func normalized(m message) message {
	m.fields, m.continues, m.upgrade = "", false, ""
	m.header, m.trailers = normalHeader(m.header), normalHeader(m.trailers)
	return m
}

func normalHeader(h http.Header) http.Header {
	h = maps.Clone(h)
	if h == nil {
		h = http.Header{}
	}
	for key, values := range h {
		if len(values) == 0 {
			h[key] = nil
		}
	}
	return h
}
