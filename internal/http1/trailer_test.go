package http1_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/internal/http1"
)

func TestTrailersAreTheFieldsAfterEnd(t *testing.T) {
	o := readRequests(t, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: digest, Late\r\n\r\n1\r\na\r\n0\r\ndigest: x\r\nOther: y\r\n\r\n")
	m := o.messages[0]
	if _, declared := m.trailers["Late"]; !declared || m.trailers.Get("Digest") != "x" || m.trailers.Get("Other") != "y" || len(m.trailers) != 3 {
		t.Errorf("trailers %v, want Digest, Late and Other", m.trailers)
	}
	if len(m.header) != 0 {
		t.Errorf("header %v, want none", m.header)
	}
}

func TestFieldsThatMustNotBeTrailers(t *testing.T) {
	for _, name := range strings.Fields(`TE Host Range Expect Cookie Pragma Trailer Upgrade Connection Set-Cookie Keep-Alive Content-Type
		Max-Forwards Authorization Content-Range Cache-Control Content-Length Content-Encoding Www-Authenticate Transfer-Encoding
		Proxy-Authenticate Proxy-Authorization`) {
		if !http1.NeverTrailer(name) || !http1.NeverTrailer(strings.ToLower(name)) {
			t.Errorf("%s is allowed as a trailer", name)
		}
	}
	for _, name := range strings.Fields("Digest Etag Server-Timing Grpc-Status X-Checksum Hosts Content-Lengths") {
		if http1.NeverTrailer(name) {
			t.Errorf("%s is not allowed as a trailer", name)
		}
	}
}

func TestAddToAddsASingleTrailer(t *testing.T) {
	p := http1.NewRequestParser(http1.Limits{})
	data := []byte("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Sum: 1\r\n\r\n")
	h := make(http.Header)
	for {
		n, event, err := p.Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		data = data[n:]
		if event == http1.End {
			p.AddTo(h)
			break
		}
	}
	if len(h) != 1 || h.Get("X-Sum") != "1" {
		t.Errorf("trailers %v, want only X-Sum: 1", h)
	}
}
