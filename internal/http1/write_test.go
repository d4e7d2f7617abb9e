package http1_test

import (
	"bufio"
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/http1"
)

func TestResponseHeads(t *testing.T) {
	noon := http1.AppendDate(nil, time.Date(2024, 2, 29, 13, 0, 0, 0, time.FixedZone("", 3600)))
	for _, c := range []struct {
		name string
		head http1.ResponseHead
		want string
	}{
		{"length", http1.ResponseHead{Status: 200, Length: 5}, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"},
		{"no body", http1.ResponseHead{Status: 404}, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"},
		{"chunked", http1.ResponseHead{Status: 200, Length: http1.Chunked}, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"},
		{"until close", http1.ResponseHead{Version: http1.HTTP10, Status: 200, Length: http1.Unframed, Connection: http1.Close}, "HTTP/1.0 200 OK\r\nConnection: close\r\n\r\n"},
		{"keep-alive", http1.ResponseHead{Version: http1.HTTP10, Status: 200, Length: 1, Connection: http1.KeepAlive}, "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\n"},
		{"a status without a text", http1.ResponseHead{Status: 799}, "HTTP/1.1 799 \r\nContent-Length: 0\r\n\r\n"},
		{"103", http1.ResponseHead{Status: 103, Header: http.Header{"Link": {"a"}}}, "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n"},
		{"204", http1.ResponseHead{Status: 204, Length: 3}, "HTTP/1.1 204 No Content\r\n\r\n"},
		{"304", http1.ResponseHead{Status: 304, Length: http1.Chunked}, "HTTP/1.1 304 Not Modified\r\n\r\n"},
		{"a header in order", http1.ResponseHead{Status: 200, Date: noon, Header: http.Header{"B": {"2", "3"}, "A": {"1"}, "Date": {"x"}, "Content-Length": {"9"}, "content-length": {"8"}, "Transfer-Encoding": {"x"}, "C": nil}},
			"HTTP/1.1 200 OK\r\nDate: Thu, 29 Feb 2024 12:00:00 GMT\r\nA: 1\r\nB: 2\r\nB: 3\r\nContent-Length: 0\r\n\r\n"},
		{"a header with an order", http1.ResponseHead{Status: 200, Header: http.Header{"A": {"1"}, "B": {"2", "3"}, "C": {"4"}, "D": {"5"}, http1.FieldOrder: {"C", "B", "E", "A", "B"}}},
			"HTTP/1.1 200 OK\r\nD: 5\r\nC: 4\r\nB: 2\r\nB: 3\r\nA: 1\r\nContent-Length: 0\r\n\r\n"},
		{"a date of the handler", http1.ResponseHead{Status: 200, Header: http.Header{"Date": {"x"}}}, "HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 0\r\n\r\n"},
		{"a connection of the handler", http1.ResponseHead{Status: 200, Connection: http1.KeepAlive, Header: http.Header{"Connection": {"close"}}}, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"},
	} {
		got, err := http1.AppendResponseHead([]byte("before "), &c.head)
		if string(got) != "before "+c.want || err != nil {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
}

func TestRequestHeads(t *testing.T) {
	for want, head := range map[string]http1.RequestHead{
		"GET /a HTTP/1.1\r\nHost: h\r\nA: b\r\n\r\n":                                           {Method: "GET", Target: "/a", Host: "h", Header: http.Header{"A": {"b"}, "Host": {"x"}, "Content-Length": {"1"}}},
		"POST / HTTP/1.1\r\nHost: \r\nContent-Length: 0\r\n\r\n":                               {Method: "POST", Target: "/"},
		"DELETE / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n":                            {Method: "DELETE", Target: "/", Host: "h", Length: 3},
		"PUT / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n": {Method: "PUT", Target: "/", Host: "h", Length: http1.Chunked, Connection: http1.Close},
		"CONNECT h:1 HTTP/1.1\r\nHost: h:1\r\n\r\n":                                            {Method: "CONNECT", Target: "h:1", Host: "h:1"},
	} {
		if got, err := http1.AppendRequestHead(nil, &head); string(got) != want || err != nil {
			t.Errorf("%q, %v\nwant %q", got, err, want)
		}
	}
}

func TestWithoutZone(t *testing.T) {
	for host, want := range map[string]string{
		"[fe80::1%eth0]:80": "[fe80::1]:80",
		"[fe80::1%eth0]":    "[fe80::1]",
		"[fe80::1]:80":      "[fe80::1]:80",
		"a.example:80":      "a.example:80",
		"a%b]":              "a%b]",
		"[a]%b":             "[a]%b",
		"[a%b":              "[a%b",
		"":                  "",
	} {
		if got := http1.WithoutZone(host); got != want {
			t.Errorf("%q: %q, want %q", host, got, want)
		}
	}
}

// An untrusted name or value must not be able to add a line or a message.
func TestNamesAndValuesCannotSplitAMessage(t *testing.T) {
	before := []byte("before")
	check := func(what string, got []byte, err error, want error) {
		t.Helper()
		if string(got) != "before" || err != want {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
	for c := range 256 {
		value := "12345678" + string([]byte{byte(c)}) + "Set-Cookie: a"
		header := http.Header{"A": {"fine"}, "Location": {value}}
		bad := c < 0x20 && c != '\t' || c == 0x7f
		got, err := http1.AppendResponseHead(before, &http1.ResponseHead{Status: 302, Header: header})
		if bad {
			check("response", got, err, http1.ErrWriteValue)
		} else if err != nil {
			t.Errorf("%#x: %v", c, err)
		}
		if got, err = http1.AppendRequestHead(before, &http1.RequestHead{Method: "GET", Target: "/", Header: header}); bad {
			check("request", got, err, http1.ErrWriteValue)
		}
		if got, err = http1.AppendLastChunk(before, header); bad {
			check("trailer", got, err, http1.ErrWriteValue)
		}
	}
	for _, name := range []string{"", "a b", "a:", "a\r\nb", "ü"} {
		got, err := http1.AppendField(before, name, "x")
		check(name, got, err, http1.ErrWriteName)
		got, err = http1.AppendHeader(before, http.Header{"A": {"b"}, name: {"x"}})
		check(name, got, err, http1.ErrWriteName)
	}
	for _, head := range []http1.RequestHead{
		{Method: "", Target: "/"}, {Method: "G T", Target: "/"}, {Method: "GET", Target: ""}, {Method: "GET", Target: "/ HTTP/1.1\r\nA: b"},
		{Method: "GET", Target: "/ HTTP/1.1\r\n"}, {Method: "GET / HTTP/1.1\r\nA: b\r\n\r\nGET", Target: "/"}, {Method: "GET", Target: "a"}, {Method: "GET", Target: "/", Host: "a\r\nb: c"}, {Method: "GET", Target: "/", Host: "a/b"},
	} {
		got, err := http1.AppendRequestHead(before, &head)
		check(head.Target, got, err, http1.ErrWriteTarget)
	}
	got, err := http1.AppendLastChunk(before, http.Header{"Content-Length": {"5"}})
	check("Content-Length", got, err, http1.ErrTrailerField)
}

func TestMisuseOfTheWriterPanics(t *testing.T) {
	for name, misuse := range map[string]func(){
		"chunks for HTTP/1.0": func() {
			http1.AppendResponseHead(nil, &http1.ResponseHead{Version: http1.HTTP10, Status: 200, Length: http1.Chunked})
		},
		"status 99":         func() { http1.AppendStatusLine(nil, http1.HTTP11, 99) },
		"status 1000":       func() { http1.AppendStatusLine(nil, http1.HTTP11, 1000) },
		"a negative length": func() { http1.AppendResponseHead(nil, &http1.ResponseHead{Status: 200, Length: -3}) },
		"an empty chunk":    func() { http1.AppendChunkHead(nil, 0) },
		"a request until close": func() {
			http1.AppendRequestHead(nil, &http1.RequestHead{Method: "GET", Target: "/", Length: http1.Unframed})
		},
	} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.HasPrefix(text, "http1: ") {
					t.Errorf("%s: %q", name, text)
				}
			}()
			misuse()
		}()
	}
}

// The package's own parser and net/http both read what is written, in random pieces.
func TestWrittenResponsesAreReadBack(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 5))
	for range rounds(2000) {
		body := make([]byte, r.IntN(300))
		for i := range body {
			body[i] = byte(r.Uint32())
		}
		header := http.Header{"Content-Type": {"a; b=\"c\""}, "X-A": {"1", "2"}, "X-B": {""}}
		trailers := http.Header{"X-Sum": {"9"}}
		head := http1.ResponseHead{Status: 200 + r.IntN(4), Length: int64(len(body)), Header: header}
		inChunks := r.IntN(2) == 0
		if inChunks {
			head.Length = http1.Chunked
		}
		wire, err := http1.AppendResponseHead(nil, &head)
		if err != nil {
			t.Fatal(err)
		}
		if !inChunks {
			wire = append(wire, body...)
			trailers = http.Header{}
		} else {
			for remaining := body; len(remaining) > 0; {
				n := 1 + r.IntN(len(remaining))
				wire = http1.AppendChunk(wire, remaining[:n])
				remaining = remaining[n:]
			}
			wire = http1.AppendChunk(wire, "")
			if wire, err = http1.AppendLastChunk(wire, trailers); err != nil {
				t.Fatal(err)
			}
		}
		o := read(t, responseParser(), string(wire), func(n int) int { return 1 + r.IntN(n) })
		if o.err != nil || len(o.messages) != 1 || o.messages[0].body != string(body) || !o.idle || !reflect.DeepEqual(o.messages[0].trailers, trailers) {
			t.Fatalf("%q: %+v", wire, o)
		}
		res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(wire)), nil)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := io.ReadAll(res.Body)
		if err != nil || !bytes.Equal(theirs, body) || res.Header.Get("Content-Type") != "a; b=\"c\"" || len(res.Trailer) != len(trailers) {
			t.Fatalf("%q: %v, %v, %q", wire, err, res, theirs)
		}
	}
}
