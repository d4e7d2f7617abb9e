package web_test

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/spindleloop/spindle/internal/http2"
	"github.com/spindleloop/spindle/web"
)

// wireCase is what a client sends after its SETTINGS. The outcome is complete when the streams
// in ends have ended, or the connection has, or, without ends, when a PING is answered.
type wireCase struct {
	name string
	say  func(p *peer)
	ends []uint32
}

// whole are the flags of a request without a body.
const whole = endHeaders | endStream

// wireCases have the subjects of the tests of the server in golang.org/x/net/http2 that a client
// or a handler can see, by the names of those tests.
var wireCases = []wireCase{
	{"Request_Get", func(p *peer) { p.send(headersFrame, whole, 1, p.request("GET", "/a?b", "foo-bar", "some-value")) }, []uint32{1}},
	{"Request_Get_PathSlashes", func(p *peer) { p.send(headersFrame, whole, 1, p.request("GET", "/%2f/")) }, []uint32{1}},
	{"Request_Post_NoContentLength_EndStream", func(p *peer) { p.send(headersFrame, whole, 1, p.request("POST", "/")) }, []uint32{1}},
	{"Request_Post_Body_ImmediateEOF", func(p *peer) {
		p.send(headersFrame, endHeaders, 1, p.request("POST", "/"))
		p.send(dataFrame, endStream, 1, nil)
	}, []uint32{1}},
	{"Request_Post_Body_OneData", func(p *peer) {
		p.send(headersFrame, endHeaders, 1, p.request("POST", "/"))
		p.send(dataFrame, endStream, 1, []byte("one"))
	}, []uint32{1}},
	{"Request_Post_Body_TwoData", func(p *peer) {
		p.send(headersFrame, endHeaders, 1, p.request("POST", "/"))
		p.send(dataFrame, 0, 1, []byte("one "))
		p.send(dataFrame, endStream, 1, []byte("two"))
	}, []uint32{1}},
	{"Request_Post_Body_ContentLength_Correct", func(p *peer) {
		p.send(headersFrame, endHeaders, 1, p.request("POST", "/", "content-length", "3"))
		p.send(dataFrame, endStream, 1, []byte("one"))
	}, []uint32{1}},
	{"Request_Post_Body_ContentLength_TooLarge", func(p *peer) {
		p.send(headersFrame, endHeaders, 1, p.request("POST", "/", "content-length", "4"))
		p.send(dataFrame, endStream, 1, []byte("one"))
	}, []uint32{1}},
	{"Request_Post_Body_ContentLength_TooSmall", func(p *peer) {
		p.send(headersFrame, endHeaders, 1, p.request("POST", "/", "content-length", "2"))
		p.send(dataFrame, endStream, 1, []byte("one"))
	}, []uint32{1}},
	{"Request_Get_Host", func(p *peer) {
		p.send(headersFrame, whole, 1, p.block(":method", "GET", ":scheme", "http", ":path", "/", "host", "example.com"))
	}, []uint32{1}},
	{"Request_Get_Authority", func(p *peer) {
		p.send(headersFrame, whole, 1, p.request("GET", "/", "host", "other.example"))
	}, []uint32{1}},
	{"Request_WithContinuation", func(p *peer) {
		b := p.request("GET", "/", "foo-one", "1", "foo-two", "2")
		p.send(headersFrame, endStream, 1, b[:10])
		p.send(continuationFrame, 0, 1, b[10:15])
		p.send(continuationFrame, endHeaders, 1, b[15:])
	}, []uint32{1}},
	{"Request_CookieConcat", func(p *peer) {
		p.send(headersFrame, whole, 1, p.request("GET", "/", "cookie", "a=b", "cookie", "c=d", "cookie", "e=f"))
	}, []uint32{1}},
	{"Request_Reject_CapitalHeader", bad("UPPER", "v"), []uint32{1}},
	{"Request_Reject_HeaderFieldNameColon", bad("has:colon", "v"), []uint32{1}},
	{"Request_Reject_HeaderFieldNameNULL", bad("has\x00null", "v"), []uint32{1}},
	{"Request_Reject_HeaderFieldNameEmpty", bad("", "v"), []uint32{1}},
	{"Request_Reject_HeaderFieldValueNewline", bad("foo", "has\nnewline"), []uint32{1}},
	{"Request_Reject_HeaderFieldValueCR", bad("foo", "has\rcarriage"), []uint32{1}},
	{"Request_Reject_HeaderFieldValueDEL", bad("foo", "has\x7fdel"), []uint32{1}},
	{"Request_Reject_Pseudo_Missing_method", pseudo(":scheme", "http", ":path", "/", ":authority", "a"), []uint32{1}},
	{"Request_Reject_Pseudo_ExactlyOne", pseudo(":method", "GET", ":method", "POST", ":scheme", "http", ":path", "/"), []uint32{1}},
	{"Request_Reject_Pseudo_AfterRegular", pseudo("a", "b", ":method", "GET", ":scheme", "http", ":path", "/"), []uint32{1}},
	{"Request_Reject_Pseudo_Missing_path", pseudo(":method", "GET", ":scheme", "http", ":authority", "a"), []uint32{1}},
	{"Request_Reject_Pseudo_Missing_scheme", pseudo(":method", "GET", ":path", "/", ":authority", "a"), []uint32{1}},
	{"Request_Reject_Pseudo_scheme_invalid", pseudo(":method", "GET", ":scheme", "bogus", ":path", "/", ":authority", "a"), []uint32{1}},
	{"Request_Reject_Pseudo_Unknown", pseudo(":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a", ":unknown", "x"), []uint32{1}},
	{"Request_Reject_Authority_Userinfo", pseudo(":method", "GET", ":scheme", "http", ":path", "/", ":authority", "user@a"), []uint32{1}},
	{"RejectFrameOnIdle_WindowUpdate", func(p *peer) { p.send(windowFrame, 0, 123, number(1)) }, nil},
	{"RejectFrameOnIdle_Data", func(p *peer) { p.send(dataFrame, endStream, 123, nil) }, nil},
	{"RejectFrameOnIdle_RSTStream", func(p *peer) { p.send(resetFrame, 0, 123, number(8)) }, nil},
	{"Request_Connect", pseudo(":method", "CONNECT", ":authority", "a:123"), []uint32{1}},
	{"Request_Connect_InvalidPath", pseudo(":method", "CONNECT", ":authority", "a:123", ":path", "/"), []uint32{1}},
	{"Request_Connect_InvalidScheme", pseudo(":method", "CONNECT", ":authority", "a:123", ":scheme", "http"), []uint32{1}},
	{"Ping", func(p *peer) {}, nil},
	{"RejectsLargeFrames", func(p *peer) { p.send(0xff, 0, 0, make([]byte, 2<<20)) }, nil},
	{"Send_GoAway_After_Bogus_WindowUpdate", func(p *peer) { p.send(windowFrame, 0, 0, number(1<<31-1)) }, nil},
	{"Send_RstStream_After_Bogus_WindowUpdate", func(p *peer) {
		p.send(headersFrame, endHeaders, 1, p.request("POST", "/"))
		p.send(windowFrame, 0, 1, number(1<<31-1))
	}, []uint32{1}},
	{"Rejects_HeadersNoEnd_Then_Headers", func(p *peer) {
		p.send(headersFrame, endStream, 1, p.request("GET", "/"))
		p.send(headersFrame, whole, 3, p.request("GET", "/"))
	}, nil},
	{"Rejects_HeadersNoEnd_Then_Ping", func(p *peer) {
		p.send(headersFrame, endStream, 1, p.request("GET", "/"))
		p.send(pingFrame, 0, 0, make([]byte, 8))
	}, nil},
	{"Rejects_HeadersEnd_Then_Continuation", func(p *peer) {
		p.send(headersFrame, endHeaders, 1, p.request("GET", "/"))
		p.send(continuationFrame, endHeaders, 1, nil)
	}, nil},
	{"Rejects_HeadersNoEnd_Then_ContinuationWrongStream", func(p *peer) {
		p.send(headersFrame, endStream, 1, p.request("GET", "/"))
		p.send(continuationFrame, endHeaders, 3, nil)
	}, nil},
	{"Rejects_Headers0", func(p *peer) { p.send(headersFrame, whole, 0, p.request("GET", "/")) }, nil},
	{"Rejects_Continuation0", func(p *peer) { p.send(continuationFrame, endHeaders, 0, nil) }, nil},
	{"Rejects_Priority0", func(p *peer) { p.send(priorityFrame, 0, 0, make([]byte, 5)) }, nil},
	{"Rejects_HeadersSelfDependence", func(p *peer) {
		p.send(headersFrame, whole|0x20, 1, append([]byte{0, 0, 0, 1, 16}, p.request("GET", "/")...))
	}, []uint32{1}},
	{"Rejects_PrioritySelfDependence", func(p *peer) { p.send(priorityFrame, 0, 1, []byte{0, 0, 0, 1, 16}) }, nil},
	{"Rejects_PushPromise", func(p *peer) { p.send(5, endHeaders, 1, append(number(2), p.request("GET", "/")...)) }, nil},
	{"RejectsContentLengthWithSignNewRequests", func(p *peer) {
		p.send(headersFrame, endHeaders, 1, p.request("POST", "/", "content-length", "+3"))
		p.send(dataFrame, endStream, 1, []byte("one"))
	}, []uint32{1}},
	{"ReadsTrailers", func(p *peer) {
		p.send(headersFrame, endHeaders, 1, p.request("POST", "/", "trailer", "Foo, Bar", "trailer", "Baz"))
		p.send(dataFrame, 0, 1, []byte("body"))
		p.send(headersFrame, whole, 1, p.block("foo", "1", "bar", "2", "surprise", "3"))
	}, []uint32{1}},
	{"Rejects_ConnHeaders", func(p *peer) {
		p.send(headersFrame, whole, 1, p.request("GET", "/", "connection", "close"))
		p.send(headersFrame, whole, 3, p.request("GET", "/", "te", "trailers, deflate"))
		p.send(headersFrame, whole, 5, p.request("GET", "/", "te", "trailers"))
		p.send(headersFrame, whole, 7, p.request("GET", "/", "transfer-encoding", "chunked"))
		p.send(headersFrame, whole, 9, p.request("GET", "/", "upgrade", "x"))
	}, []uint32{1, 3, 5, 7, 9}},
	{"Headers_HalfCloseRemote", func(p *peer) {
		p.send(headersFrame, whole, 1, p.request("GET", "/wait"))
		p.send(headersFrame, endHeaders|endStream, 1, p.block("a", "b"))
	}, []uint32{1}},
	{"Rejects_TooSmall", func(p *peer) {
		p.send(headersFrame, endHeaders, 1, p.request("POST", "/", "content-length", "4"))
		p.send(dataFrame, endStream, 1, []byte("12345"))
	}, []uint32{1}},
	{"Rejects_PriorityUpdate0", func(p *peer) { p.send(priorityUpdateFrame, 0, 0, number(0)) }, nil},
	{"Rejects_PriorityUpdateUnparsable", func(p *peer) {
		p.send(priorityUpdateFrame, 0, 0, append(number(1), "Invalid dictionary: (((("...))
	}, nil},
	{"RFC7540PrioritySmallPayload", func(p *peer) { p.send(priorityFrame, 0, 1, make([]byte, 4)) }, nil},
	{"RFC9218PrioritySmallPayload", func(p *peer) { p.send(priorityUpdateFrame, 0, 0, make([]byte, 3)) }, nil},
	{"SettingNoRFC7540PrioritiesInvalid", func(p *peer) { p.send(settingsFrame, 0, 0, []byte{0, 9, 0, 0, 0, 2}) }, nil},
	{"SettingsFlowControlUpdateBeyondLimit", grown(1<<31 - 1000), []uint32{1}},
	{"SettingsFlowControlUpdateWithinLimit", grown(1<<31 - 1 - 1000), []uint32{1}},
	{"ContinuationAfterInvalidHeader", func(p *peer) {
		p.send(headersFrame, endStream, 1, p.request("GET", "/"))
		p.send(continuationFrame, 0, 1, p.block("x-invalid-header", "\x00"))
		p.send(continuationFrame, endHeaders, 1, p.block("x-valid-header", "1"))
	}, []uint32{1}},
	{"ProtocolErrorAfterGoAway", func(p *peer) {
		p.send(headersFrame, endHeaders, 1, p.request("POST", "/", "content-length", "12"))
		p.send(dataFrame, 0, 1, []byte("some "))
		p.send(goAwayFrame, 0, 0, append(number(1), number(0)...))
		p.until(goAwayFrame) // before it is sent, net/http would put the code of the mistake into it
		p.send(windowFrame, 0, 0, number(1<<31-1))
	}, nil},
	{"an even stream", func(p *peer) { p.send(headersFrame, whole, 2, p.request("GET", "/")) }, nil},
	{"a stream that goes back", func(p *peer) {
		p.send(headersFrame, whole, 5, p.request("GET", "/"))
		p.send(headersFrame, whole, 3, p.request("GET", "/"))
	}, nil},
	{"a table that cannot be decoded", func(p *peer) { p.send(headersFrame, whole, 1, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}) }, nil},
	{"SETTINGS of a wrong size", func(p *peer) { p.send(settingsFrame, 0, 0, make([]byte, 5)) }, nil},
	{"PING of a wrong size", func(p *peer) { p.send(pingFrame, 0, 0, make([]byte, 5)) }, nil},
	{"an unknown frame", func(p *peer) { p.send(0x7f, 0xff, 77, []byte("x")) }, nil},
}

// wireDifference has the cases that differ from net/http, and why.
var wireDifference = map[string]string{
	"Rejects_ConnHeaders":                      "the request is malformed, so its stream is reset, as RFC 9113 says; there the answer is 400",
	"a stream that goes back":                  "a later stream has closed it, so the code is STREAM_CLOSED; there it is PROTOCOL_ERROR",
	"ReadsTrailers":                            "a trailer that was not declared is kept, as a client's is by net/http; there it is dropped",
	"Request_Reject_Pseudo_scheme_invalid":     "any scheme is accepted: RFC 9113 does not limit it to http and https",
	"Request_Get_Authority":                    "Host of the header is not in Request.Header, as with HTTP/1.1",
	"Request_Get_Host":                         "Host of the header is not in Request.Header, as with HTTP/1.1",
	"Request_Reject_Authority_Userinfo":        "a user in the authority is passed on, as with HTTP/1.1",
	"Rejects_PriorityUpdate0":                  "GOAWAY, as RFC 9218 and x/net say; net/http does not know the frame",
	"RFC9218PrioritySmallPayload":              "GOAWAY, as RFC 9218 and x/net say; net/http does not know the frame",
	"SettingNoRFC7540PrioritiesInvalid":        "GOAWAY, as RFC 9218 and x/net say; net/http does not know the setting",
	"RFC7540PrioritySmallPayload":              "the stream is reset, as RFC 9113 says; there the connection ends",
	"ContinuationAfterInvalidHeader":           "the request is malformed, so its stream is reset, as RFC 9113 says; there the connection ends",
	"ProtocolErrorAfterGoAway":                 "the mistake has a GOAWAY of its own; there the connection is closed",
	"Request_Post_Body_ContentLength_TooLarge": "the stream is reset with PROTOCOL_ERROR as RFC 9113 says; there the handler sees an error",
}

// bad sends a request with a field that must not be sent.
func bad(name, value string) func(*peer) {
	return func(p *peer) { p.send(headersFrame, whole, 1, p.request("GET", "/", name, value)) }
}

// grown sends a request, returns 1000 bytes to its stream, and changes the window of all streams.
func grown(window uint32) func(*peer) {
	return func(p *peer) {
		p.send(headersFrame, endHeaders, 1, p.request("POST", "/"))
		p.send(windowFrame, 0, 1, number(1000))
		p.send(settingsFrame, 0, 0, append([]byte{0, 4}, number(window)...))
		p.send(dataFrame, endStream, 1, []byte("one"))
	}
}

// pseudo sends a request with exactly these fields.
func pseudo(fields ...string) func(*peer) {
	return func(p *peer) { p.send(headersFrame, whole, 1, p.block(fields...)) }
}

// describeRequest answers with what a handler sees.
func describeRequest(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if r.URL.Path == "/wait" {
		<-r.Context().Done()
	}
	var header []string
	for _, key := range slices.Sorted(maps.Keys(r.Header)) {
		header = append(header, fmt.Sprint(key, r.Header[key]))
	}
	fmt.Fprintf(w, "%s %s %s %s %v %d %q %v %v", r.Method, r.RequestURI, r.URL, r.Host, header, r.ContentLength, body, err != nil, r.Trailer)
}

// outcome returns what a server does with what a case says.
func (c *wireCase) outcome(t testing.TB, addr string) string {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(20 * time.Second))
	p := &peer{t: t, nc: nc, br: bufio.NewReader(nc), dec: hpack.NewDecoder(4096, nil)}
	p.enc = hpack.NewEncoder(&p.buf)
	io.WriteString(nc, http2.Preface)
	p.send(settingsFrame, 0, 0, nil)
	p.until(settingsFrame)
	p.send(settingsFrame, ack, 0, nil)
	c.say(p)
	p.send(pingFrame, 0, 0, []byte("the last"))
	got := map[uint32]string{}
	over := map[uint32]bool{}
	end, ponged := "open", false
	for end == "open" && !(ponged && !slices.ContainsFunc(c.ends, func(id uint32) bool { return !over[id] })) {
		f, err := p.read()
		if err != nil {
			end = "closed"
			break
		}
		switch f.kind {
		case headersFrame:
			fields, err := p.dec.DecodeFull(f.payload)
			if err != nil {
				t.Fatal(err)
			}
			for _, field := range fields {
				if field.Name == ":status" {
					got[f.id] += field.Value + " "
				}
			}
		case dataFrame:
			got[f.id] += string(f.payload)
		case resetFrame:
			if !over[f.id] {
				got[f.id] += " reset " + f.code().String()
			}
			over[f.id] = true
		case goAwayFrame:
			if _, code := f.goAway(); code != http2.NoError {
				end = "GOAWAY " + code.String()
			}
		case pingFrame:
			ponged = ponged || string(f.payload) == "the last"
		}
		if f.kind <= headersFrame && f.flags&endStream != 0 {
			over[f.id] = true
		}
	}
	var all strings.Builder
	for _, id := range c.ends {
		if end == "open" {
			fmt.Fprintf(&all, "%d: %s\n", id, got[id])
		}
	}
	return all.String() + end
}

// TestHTTP2WireSameAsNetHTTP says the same to this server and to that of net/http.
func TestHTTP2WireSameAsNetHTTP(t *testing.T) {
	t.Parallel()
	theirs := httptest.NewUnstartedServer(http.HandlerFunc(describeRequest))
	theirs.Config.ErrorLog = log.New(io.Discard, "", 0)
	theirs.Config.Protocols = h2c()
	theirs.Start()
	defer theirs.Close()
	s := plainHTTP2(&web.Server{Handler: http.HandlerFunc(describeRequest), ErrorLog: slog.New(slog.DiscardHandler)})
	ours := serve(t, s).Addr().String()
	for _, c := range wireCases {
		want, got := c.outcome(t, theirs.Listener.Addr().String()), c.outcome(t, ours)
		if _, differs := wireDifference[c.name]; differs == (got == want) {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, want)
		}
	}
}
