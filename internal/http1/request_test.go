package http1_test

import (
	"strings"
	"testing"

	"github.com/spindleloop/spindle/internal/http1"
)

func TestRequests(t *testing.T) {
	for _, c := range []struct {
		name, stream string
		want         message // header, trailers and used are not compared
	}{
		{"a plain GET", "GET /a?b=c HTTP/1.1\r\nHost: x.y:80\r\nAccept: */*\r\n\r\n",
			message{first: "GET /a?b=c HTTP/1.1", host: "x.y:80", fields: "Host: x.y:80\nAccept: */*\n", keepAlive: true}},
		{"spaces around values", "GET / HTTP/1.1\r\nHost:a\r\nA:\t b c \t\r\nB:\r\nC:  \r\n\r\n",
			message{first: "GET / HTTP/1.1", host: "a", fields: "Host: a\nA: b c\nB: \nC: \n", keepAlive: true}},
		{"repeated fields", "GET / HTTP/1.1\r\nHost: a\r\nA: 1\r\nA: 2\r\n\r\n",
			message{first: "GET / HTTP/1.1", host: "a", fields: "Host: a\nA: 1\nA: 2\n", keepAlive: true}},
		{"an empty Host", "GET / HTTP/1.1\r\nHost:\r\n\r\n",
			message{first: "GET / HTTP/1.1", fields: "Host: \n", keepAlive: true}},
		{"an address as Host", "GET / HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n",
			message{first: "GET / HTTP/1.1", host: "[::1]:8080", fields: "Host: [::1]:8080\n", keepAlive: true}},
		{"an absolute target takes precedence over Host", "GET HTTP://b:1/p HTTP/1.1\r\nHost: a\r\n\r\n",
			message{first: "GET HTTP://b:1/p HTTP/1.1", host: "b:1", fields: "Host: a\n", keepAlive: true}},
		{"an absolute target with only a query", "GET https://b?q HTTP/1.1\r\nHost: a\r\n\r\n",
			message{first: "GET https://b?q HTTP/1.1", host: "b", fields: "Host: a\n", keepAlive: true}},
		{"CONNECT", "CONNECT b:443 HTTP/1.1\r\nHost: a\r\n\r\n",
			message{first: "CONNECT b:443 HTTP/1.1", host: "b:443", fields: "Host: a\n", keepAlive: true}},
		{"CONNECT to an address", "CONNECT [::1]:443 HTTP/1.1\r\nHost: a\r\n\r\n",
			message{first: "CONNECT [::1]:443 HTTP/1.1", host: "[::1]:443", fields: "Host: a\n", keepAlive: true}},
		{"OPTIONS *", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
			message{first: "OPTIONS * HTTP/1.1", host: "a", fields: "Host: a\n", keepAlive: true}},
		{"unescaped characters that browsers send", "GET /a|b?{\"c\":%\xc3\xbc} HTTP/1.1\r\nHost: a\r\n\r\n",
			message{first: "GET /a|b?{\"c\":%\xc3\xbc} HTTP/1.1", host: "a", fields: "Host: a\n", keepAlive: true}},
		{"HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", message{first: "GET / HTTP/1.0"}},
		{"HTTP/1.0 with keep-alive", "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",
			message{first: "GET / HTTP/1.0", fields: "Connection: Keep-Alive\n", keepAlive: true}},
		{"HTTP/1.0 with keep-alive and close", "GET / HTTP/1.0\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n",
			message{first: "GET / HTTP/1.0", fields: "Connection: keep-alive\nConnection: close\n"}},
		{"close", "GET / HTTP/1.1\r\nHost: a\r\nConnection: x, CLOSE ,y\r\n\r\n",
			message{first: "GET / HTTP/1.1", host: "a", fields: "Host: a\nConnection: x, CLOSE ,y\n"}},
		{"closes is not close", "GET / HTTP/1.1\r\nHost: a\r\nConnection: closes\r\n\r\n",
			message{first: "GET / HTTP/1.1", host: "a", fields: "Host: a\nConnection: closes\n", keepAlive: true}},
		{"an upgrade", "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n\r\n",
			message{first: "GET / HTTP/1.1", host: "a", fields: "Host: a\nUpgrade: websocket\nConnection: keep-alive, Upgrade\n", keepAlive: true, upgrade: "websocket"}},
		{"an upgrade that Connection does not name", "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n",
			message{first: "GET / HTTP/1.1", host: "a", fields: "Host: a\nUpgrade: websocket\n", keepAlive: true}},
		{"an upgrade in HTTP/1.0", "GET / HTTP/1.0\r\nUpgrade: a\r\nConnection: upgrade\r\n\r\n",
			message{first: "GET / HTTP/1.0", fields: "Upgrade: a\nConnection: upgrade\n"}},
		{"a body", "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 003\r\n\r\nabc",
			message{first: "PUT / HTTP/1.1", host: "a", fields: "Host: a\nContent-Length: 003\n", length: 3, body: "abc", keepAlive: true}},
		{"100-continue", "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: 100-Continue\r\n\r\na",
			message{first: "PUT / HTTP/1.1", host: "a", fields: "Host: a\nContent-Length: 1\nExpect: 100-Continue\n", length: 1, body: "a", keepAlive: true, continues: true}},
		{"100-continue without a body", "GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n",
			message{first: "GET / HTTP/1.1", host: "a", fields: "Host: a\nExpect: 100-continue\n", keepAlive: true}},
		{"100-continue in HTTP/1.0", "PUT / HTTP/1.0\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\na",
			message{first: "PUT / HTTP/1.0", fields: "Content-Length: 1\nExpect: 100-continue\n", length: 1, body: "a"}},
		{"chunks", chunkedHead + "3\r\nabc\r\nA;x=\"y\"\t;z\r\n0123456789\r\n00\r\n\r\n",
			message{first: "POST / HTTP/1.1", host: "a", fields: "Host: a\nTransfer-Encoding: chunked\n", length: -1, body: "abc0123456789", keepAlive: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := readRequests(t, c.stream)
			if o.err != nil || len(o.messages) != 1 || !o.idle {
				t.Fatal(o)
			}
			got := o.messages[0]
			if got.used != len(c.stream) || !got.complete {
				t.Errorf("the parser used %d of %d bytes", got.used, len(c.stream))
			}
			c.want.header, c.want.trailers, c.want.used, c.want.complete = got.header, got.trailers, got.used, true
			if a, b := comparableParts(got), comparableParts(c.want); a != b {
				t.Errorf("%+v\nwant %+v", got, c.want)
			}
		})
	}
}

// comparableParts returns the fields of m that can be compared with ==.
func comparableParts(m message) any {
	return [...]any{m.first, m.host, m.fields, m.length, m.body, m.keepAlive, m.continues, m.upgrade}
}

func TestEOFWithinAMessageIsAnError(t *testing.T) {
	for stream, want := range map[string]error{
		"":                                  nil,
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n": nil,
		"G":                                 http1.ErrUnexpectedEOF,
		"GET / HTTP/1.1\r\nH":               http1.ErrUnexpectedEOF,
		chunkedHead:                         http1.ErrUnexpectedEOF,
		chunkedHead + "5\r\nab":             http1.ErrUnexpectedEOF,
		chunkedHead + "0\r\nA:":             http1.ErrUnexpectedEOF,
		"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabcd": http1.ErrUnexpectedEOF,
	} {
		p := http1.NewRequestParser(http1.Limits{})
		read(t, p, stream, whole)
		if event, err := p.EOF(); event != http1.More || err != want && (want == nil || err.Error() != want.Error()) {
			t.Errorf("%q: EOF returned %v, %v, want error %v", stream, event, err, want)
		}
	}
}

func TestResetParserReadsANewConnection(t *testing.T) {
	p := http1.NewRequestParser(http1.Limits{})
	for _, stream := range []string{"\x00", "GET / HT", chunkedHead + "5\r\nab", "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 1\r\n\r\n"} {
		read(t, p, stream, whole)
		p.Reset()
		o := read(t, p, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", whole)
		if o.err != nil || len(o.messages) != 1 || !o.messages[0].keepAlive || !o.idle {
			t.Errorf("after %q: %+v", stream, o)
		}
	}
	r := http1.NewResponseParser(http1.Limits{})
	r.Answering("HEAD")
	r.Parse([]byte("x"))
	r.Reset()
	if o := read(t, r, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", whole); o.err != nil || o.messages[0].body != "a" {
		t.Errorf("%+v", o)
	}
}

func TestLargeBuffersAreNotKept(t *testing.T) {
	p := http1.NewRequestParser(http1.Limits{})
	large := "GET / HTTP/1.1\r\nHost: a\r\nA: " + strings.Repeat("a", 60000) + "\r\n\r\n"
	read(t, p, large, func(int) int { return 1000 })
	if n := p.BufferSize(); n > 4096 {
		t.Errorf("the parser kept a buffer of %d bytes", n)
	}
	read(t, p, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", func(int) int { return 10 })
	if n := p.BufferSize(); n == 0 {
		t.Error("the parser did not keep a small buffer")
	}
}
