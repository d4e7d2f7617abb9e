package http1_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/internal/http1"
)

func get(fields string) string  { return "GET / HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n" }
func line(first string) string  { return first + "\r\nHost: a\r\n\r\n" }
func chunks(body string) string { return chunkedHead + body }

// hostile has requests that were used in attacks, and other invalid ones.
var hostile = []struct {
	name   string
	stream string
	err    *http1.Error
	status int
}{
	// Smuggling: two programs see different lengths of a body.
	{"CL.TE", get("Content-Length: 6\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\nG", http1.ErrLengthWithEncoding, 400},
	{"TE.CL", get("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n") + "5c\r\nGPOST", http1.ErrLengthWithEncoding, 400},
	{"TE.TE, the second odd", get("Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n") + "0\r\n\r\n", http1.ErrTransferEncoding, 400},
	{"TE.TE, the first odd", get("Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\n", http1.ErrTransferEncoding, 400},
	{"TE twice", get("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\n", http1.ErrTransferEncoding, 400},
	{"TE xchunked", get("Transfer-Encoding: xchunked\r\n"), http1.ErrTransferCoding, 501},
	{"TE chunked in quotes", get("Transfer-Encoding: \"chunked\"\r\n"), http1.ErrTransferEncoding, 400},
	{"TE chunked with a parameter", get("Transfer-Encoding: chunked;a=b\r\n"), http1.ErrTransferEncoding, 400},
	{"TE not last", get("Transfer-Encoding: chunked, gzip\r\n"), http1.ErrTransferEncoding, 400},
	{"TE chunked twice in a list", get("Transfer-Encoding: chunked, chunked\r\n"), http1.ErrTransferEncoding, 400},
	{"TE list with a hole", get("Transfer-Encoding: , chunked\r\n"), http1.ErrTransferEncoding, 400},
	{"TE list with an end", get("Transfer-Encoding: chunked,\r\n"), http1.ErrTransferEncoding, 400},
	{"TE empty", get("Transfer-Encoding:\r\n"), http1.ErrTransferEncoding, 400},
	{"TE identity", get("Transfer-Encoding: identity\r\n"), http1.ErrTransferCoding, 501},
	{"TE with another coding", get("Transfer-Encoding: gzip, chunked\r\n"), http1.ErrTransferCoding, 501},
	{"TE with a vertical tab", get("Transfer-Encoding: \vchunked\r\n"), http1.ErrFieldValue, 400},
	{"TE with a space before the colon", get("Transfer-Encoding : chunked\r\n"), http1.ErrFieldSpace, 400},
	{"TE with a tab before the colon", get("Transfer-Encoding\t: chunked\r\n"), http1.ErrFieldSpace, 400},
	{"TE behind a space", get(" Transfer-Encoding: chunked\r\n"), http1.ErrFieldFold, 400},
	{"TE in a fold", get("X: y\r\n\tTransfer-Encoding: chunked\r\n"), http1.ErrFieldFold, 400},
	{"TE behind a bare LF", get("X: y\nTransfer-Encoding: chunked\r\n"), http1.ErrBareLF, 400},
	{"TE behind a bare CR", get("X: y\rTransfer-Encoding: chunked\r\n"), http1.ErrFieldValue, 400},
	{"TE with NUL", get("Transfer-Encoding\x00: chunked\r\n"), http1.ErrFieldName, 400},
	{"TE in HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", http1.ErrTransferEncoding10, 400},
	{"two lengths", get("Content-Length: 5\r\nContent-Length: 6\r\n"), http1.ErrContentLengthRepeated, 400},
	{"two equal lengths", get("Content-Length: 5\r\ncontent-length: 5\r\n"), http1.ErrContentLengthRepeated, 400},
	{"a list of lengths", get("Content-Length: 5, 5\r\n"), http1.ErrContentLength, 400},
	{"a length with a sign", get("Content-Length: +5\r\n"), http1.ErrContentLength, 400},
	{"a negative length", get("Content-Length: -5\r\n"), http1.ErrContentLength, 400},
	{"a length in hex", get("Content-Length: 0x5\r\n"), http1.ErrContentLength, 400},
	{"a length with a fraction", get("Content-Length: 5.0\r\n"), http1.ErrContentLength, 400},
	{"a length with a space in it", get("Content-Length: 1 0\r\n"), http1.ErrContentLength, 400},
	{"an empty length", get("Content-Length: \r\n"), http1.ErrContentLength, 400},
	{"a length of 64 bits", get("Content-Length: 18446744073709551617\r\n"), http1.ErrContentLength, 400},
	{"a length of 63 bits and one", get("Content-Length: 9223372036854775808\r\n"), http1.ErrContentLength, 400},

	// Chunks.
	{"chunk size of 65 bits", chunks("10000000000000005\r\n12345\r\n0\r\n\r\n"), http1.ErrChunkSize, 400},
	{"chunk size of 64 bits", chunks("ffffffffffffffff\r\n"), http1.ErrChunkSize, 400},
	{"chunk size with zeros without end", chunks(strings.Repeat("0", 17)), http1.ErrChunkSize, 400},
	{"chunk size with 0x", chunks("0x5\r\n12345\r\n0\r\n\r\n"), http1.ErrChunkSize, 400},
	{"chunk size with a sign", chunks("+5\r\n12345\r\n0\r\n\r\n"), http1.ErrChunkSize, 400},
	{"chunk size missing", chunks("\r\n12345\r\n"), http1.ErrChunkSize, 400},
	{"chunk size with a space", chunks("5 \r\n12345\r\n"), http1.ErrChunkSize, 400},
	{"chunk size behind a space", chunks(" 5\r\n12345\r\n"), http1.ErrChunkSize, 400},
	{"chunk size with a bare LF", chunks("5\n12345\r\n"), http1.ErrChunkSize, 400},
	{"chunk size with a bare CR", chunks("5\r12345\r\n"), http1.ErrChunkSize, 400},
	{"chunk with an underscore", chunks("1_0\r\n"), http1.ErrChunkSize, 400},
	{"chunk longer than its size", chunks("4\r\n12345\r\n0\r\n\r\n"), http1.ErrChunkEnd, 400},
	{"chunk shorter than its size", chunks("6\r\n12345\r\n0\r\n\r\n"), http1.ErrChunkEnd, 400},
	{"chunk data with another byte for CR", chunks("5\r\n12345x\n0\r\n\r\n"), http1.ErrChunkEnd, 400},
	{"chunk data with another byte for LF", chunks("5\r\n12345\rx0\r\n\r\n"), http1.ErrChunkEnd, 400},
	{"chunk data with a bare LF", chunks("5\r\n12345\n0\r\n\r\n"), http1.ErrChunkEnd, 400},
	{"chunk extension with a bare LF", chunks("5;a\n12345\r\n0\r\n\r\n"), http1.ErrChunkExtension, 400},
	{"chunk extension with NUL", chunks("5;\x00\r\n12345\r\n"), http1.ErrChunkExtension, 400},
	{"chunk extension with a bare CR", chunks("5;a\rb\r\n12345\r\n"), http1.ErrChunkSize, 400},
	{"chunk extension without end", chunks("5;" + strings.Repeat("a", 5000)), http1.ErrChunkExtensionTooLarge, 413},
	{"chunk extensions many", chunks(strings.Repeat("1;aaaaaaaa\r\nx\r\n", 129)), http1.ErrChunkExtensionTooLarge, 413},
	{"trailer Content-Length", chunks("0\r\ncontent-length: 5\r\n\r\n"), http1.ErrTrailerField, 400},
	{"trailer Transfer-Encoding", chunks("0\r\nTransfer-Encoding: chunked\r\n\r\n"), http1.ErrTrailerField, 400},
	{"trailer Host", chunks("0\r\nHost: b\r\n\r\n"), http1.ErrTrailerField, 400},
	{"trailer Authorization", chunks("0\r\nAuthorization: b\r\n\r\n"), http1.ErrTrailerField, 400},
	{"trailer folded", chunks("0\r\nA: b\r\n c\r\n\r\n"), http1.ErrFieldFold, 400},
	{"trailer without a name", chunks("0\r\n: b\r\n\r\n"), http1.ErrFieldName, 400},
	{"trailer too large", chunks("0\r\nA: " + strings.Repeat("a", 5000)), http1.ErrTrailerTooLarge, 431},
	{"trailers too many", chunks("0\r\n" + strings.Repeat("A: b\r\n", 129)), http1.ErrTooManyFields, 431},
	{"trailer declared that frames", get("Transfer-Encoding: chunked\r\nTrailer: a, Content-Length\r\n"), http1.ErrTrailerDeclaration, 400},

	// Lines.
	{"LF only", "GET / HTTP/1.1\nHost: a\n\n", http1.ErrBareLF, 400},
	{"LF at the end of the header", "GET / HTTP/1.1\r\nHost: a\r\n\n", http1.ErrBareLF, 400},
	{"CRs doubled", "GET / HTTP/1.1\r\r\nHost: a\r\r\n\r\r\n", http1.ErrVersion, 400},
	{"CR doubled at the end", "GET / HTTP/1.1\r\nHost: a\r\n\r\r\n", http1.ErrFieldName, 400},
	{"an empty line first", "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", http1.ErrRequestLine, 400},
	{"a space first", line(" GET / HTTP/1.1"), http1.ErrMethod, 400},
	{"no name", get(": b\r\n"), http1.ErrFieldName, 400},
	{"no colon", get("abc\r\n"), http1.ErrFieldName, 400},
	{"a name in brackets", get("[a]: b\r\n"), http1.ErrFieldName, 400},
	{"a name that is not ASCII", get("\xc3\xbc: b\r\n"), http1.ErrFieldName, 400},
	{"a value with NUL", get("A: b\x00c\r\n"), http1.ErrFieldValue, 400},
	{"a value with DEL", get("A: b\x7fc\r\n"), http1.ErrFieldValue, 400},
	{"a value with an escape", get("A: 12345678\x1b[2J12345678\r\n"), http1.ErrFieldValue, 400},
	{"a fold in the first line", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", http1.ErrFieldFold, 400},
	{"a TLS handshake", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc", http1.ErrMethod, 400},
	{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", http1.ErrHTTP2, 505},

	// Request lines.
	{"HTTP/0.9", "GET /\r\n", http1.ErrRequestLine, 400},
	{"no target", line("GET  HTTP/1.1"), http1.ErrTarget, 400},
	{"only a method", line("GET"), http1.ErrRequestLine, 400},
	{"two spaces", line("GET  / HTTP/1.1"), http1.ErrTarget, 400},
	{"two spaces before the version", line("GET /  HTTP/1.1"), http1.ErrVersion, 400},
	{"a space at the end", line("GET / HTTP/1.1 "), http1.ErrVersion, 400},
	{"a tab between", line("GET\t/ HTTP/1.1"), http1.ErrMethod, 400},
	{"a tab in the target", line("GET /\t HTTP/1.1"), http1.ErrTarget, 400},
	{"a method that is no token", line("G{T / HTTP/1.1"), http1.ErrMethod, 400},
	{"a target with a space", line("GET /a b HTTP/1.1"), http1.ErrVersion, 400},
	{"a target with NUL", line("GET /\x00 HTTP/1.1"), http1.ErrTarget, 400},
	{"a target with a control character in its query", line("GET /?a\x1f HTTP/1.1"), http1.ErrTarget, 400},
	{"a target with a fragment", line("GET /a#b HTTP/1.1"), http1.ErrTarget, 400},
	{"a target with half an escape", line("GET /a%4 HTTP/1.1"), http1.ErrTarget, 400},
	{"a target with an escape that is none", line("GET /a%zz HTTP/1.1"), http1.ErrTarget, 400},
	{"a target that is a relative path", line("GET a HTTP/1.1"), http1.ErrTarget, 400},
	{"an asterisk for GET", line("GET * HTTP/1.1"), http1.ErrTarget, 400},
	{"an absolute target without a host", line("GET http:///a HTTP/1.1"), http1.ErrTarget, 400},
	{"an absolute target with a user", line("GET http://a@b/ HTTP/1.1"), http1.ErrTarget, 400},
	{"an absolute target with a bad port", line("GET http://a:b/ HTTP/1.1"), http1.ErrTarget, 400},
	{"an absolute target with a bad address", line("GET http://[1::2::3]/ HTTP/1.1"), http1.ErrTarget, 400},
	{"an absolute target with a bad path", line("GET http://a/%g0 HTTP/1.1"), http1.ErrTarget, 400},
	{"CONNECT with a path", line("CONNECT /a HTTP/1.1"), http1.ErrTarget, 400},
	{"CONNECT without a port", line("CONNECT a HTTP/1.1"), http1.ErrTarget, 400},
	{"CONNECT with an empty port", line("CONNECT a: HTTP/1.1"), http1.ErrTarget, 400},
	{"CONNECT to an address without a port", line("CONNECT [::1] HTTP/1.1"), http1.ErrTarget, 400},
	{"version in lower case", line("GET / http/1.1"), http1.ErrVersion, 400},
	{"version with two digits", line("GET / HTTP/1.10"), http1.ErrVersion, 400},
	{"version with a comma", line("GET / HTTP/1,1"), http1.ErrVersion, 400},
	{"version 2", line("GET / HTTP/2.0"), http1.ErrVersionUnsupported, 505},
	{"version 1.2", line("GET / HTTP/1.2"), http1.ErrVersionUnsupported, 505},
	{"another protocol", line("GET / SIP/2.0"), http1.ErrVersion, 400},

	// Host.
	{"no Host", "GET / HTTP/1.1\r\nA: b\r\n\r\n", http1.ErrHostMissing, 400},
	{"no Host but an absolute target", "GET http://a/ HTTP/1.1\r\n\r\n", http1.ErrHostMissing, 400},
	{"two Hosts", get("Host: a\r\n"), http1.ErrHostRepeated, 400},
	{"two Hosts in HTTP/1.0", "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", http1.ErrHostRepeated, 400},
	{"Host with a path", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", http1.ErrHost, 400},
	{"Host with a user", "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", http1.ErrHost, 400},
	{"Host with a list", "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", http1.ErrHost, 400},
	{"Host with a bad port", "GET / HTTP/1.1\r\nHost: a:8x\r\n\r\n", http1.ErrHost, 400},
	{"Host with two ports", "GET / HTTP/1.1\r\nHost: a:8:9\r\n\r\n", http1.ErrHost, 400},
	{"Host with a name in brackets", "GET / HTTP/1.1\r\nHost: [ab]\r\n\r\n", http1.ErrHost, 400},
	{"Host with half a literal", "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", http1.ErrHost, 400},
	{"Host with something behind a literal", "GET / HTTP/1.1\r\nHost: [::1]a\r\n\r\n", http1.ErrHost, 400},
	{"Host with an escape", "GET / HTTP/1.1\r\nHost: a%00\r\n\r\n", http1.ErrHost, 400},

	// Sizes.
	{"a request line without end", strings.Repeat("A", 9000), http1.ErrRequestLineTooLong, 414},
	{"a target too long", line("GET /" + strings.Repeat("a", 9000) + " HTTP/1.1"), http1.ErrRequestLineTooLong, 414},
	{"a bad request line too long", line("GET /\x00" + strings.Repeat("a", 9000) + " HTTP/1.1"), http1.ErrRequestLineTooLong, 414},
	{"a field without end", get("A: " + strings.Repeat("a", 70000)), http1.ErrHeaderTooLarge, 431},
	{"a bad field too long", get("A: \x00" + strings.Repeat("a", 70000) + "\r\n"), http1.ErrHeaderTooLarge, 431},
	{"fields too many", get(strings.Repeat("A:\r\n", 128)), http1.ErrTooManyFields, 431},
	{"fields too many by far", get(strings.Repeat("A:\r\n", 100000)), http1.ErrTooManyFields, 431},
	{"an expectation", get("Expect: 200-ok\r\n"), http1.ErrExpectation, 417},
	{"two expectations", get("Expect: 100-continue\r\nExpect: x\r\n"), http1.ErrExpectation, 417},
}

func TestHostileRequestsAreRefused(t *testing.T) {
	for _, h := range hostile {
		t.Run(h.name, func(t *testing.T) {
			for name, pieceSize := range map[string]func(int) int{"whole": whole, "bytes": func(int) int { return 1 }} {
				o := read(t, http1.NewRequestParser(http1.Limits{}), h.stream, pieceSize)
				if !errors.Is(o.err, h.err) {
					t.Errorf("%s: error %v, want %v", name, o.err, h.err)
				}
				for _, m := range o.messages {
					if m.complete {
						t.Errorf("%s: a message was accepted: %+v", name, m)
					}
				}
			}
			if h.err.Status != h.status {
				t.Errorf("status %d, want %d", h.err.Status, h.status)
			}
		})
	}
}
