package http1_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// The words of random messages: ordinary ones, and some that programs read differently.
var (
	methods  = []string{"GET", "GET", "POST", "HEAD", "OPTIONS", "CONNECT", "PUT", "get", "M-SEARCH", "G@T", "", "PRI"}
	targets  = []string{"/", "/", "/a/b?c=d", "/%41%zz", "/%4", "/%e2%82%ac?%", "*", "http://h/p?q", "HTTPS://h:8/", "http://[::1]:80/", "http://[::zz]/", "http://h?x", "h:443", "[::1]:1", "//x/y", "x", "/a b", "/\x80\xff", "/#f", "/a|{}\"<>^`\\", "http://u@h/", "/\x01"}
	versions = []string{"HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/1.2", "HTTP/2.0", "http/1.1", "HTTP/1.01", "HTTP/11", ""}
	lines    = []string{
		"Host: a", "host:b:80", "Host: a, b", "Host:", "Host: [::1]:9", "Accept: */*", "accept-encoding: gzip, br", "Cookie: a=b; c=d",
		"X-Long: " + strings.Repeat("long ", 20), "X-Empty:", "X-Tabs:\t a\tb \t", "X-Obs: \xe4\xff", "Connection: close", "Connection: Keep-Alive",
		"connection: upgrade, x", "Connection: close , keep-alive", "Connection: \t,close,", "Upgrade: websocket", "Expect: 100-continue", "Expect: x", "Content-Length: 5",
		"Content-Length: 05", "Content-Length: +5", "Content-Length: -1", "Content-Length: 5, 5", "Content-Length: 5 5", "Content-Length:",
		"Content-Length: 9223372036854775807", "Content-Length: 9223372036854775808", "Content-Length: 0x5", "Content-Length: 0", "Content_Length: 5",
		"Transfer-Encoding: chunked", "transfer-encoding: CHUNKED ", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: chunked, identity",
		"Transfer-Encoding: xchunked", "Transfer-Encoding : chunked", "Transfer-Encoding:\tchunked", "Transfer-Encoding:", "Transfer-Encoding: identity",
		"Trailer: A, b", "Trailer: Content-Length", "Pragma: no-cache", "Cache-Control: x", " folded", "\tfolded", "no colon", ": no name", "B@d: x", "A B: c",
		"X: a\x00b", "X: a\rb", "X: \x7f", "X: a\nY: b",
	}
	bodies = []string{
		"", "", "12345", "5\r\n12345\r\n0\r\n\r\n", "0\r\n\r\n", "a\r\n0123456789\r\n2;x=y\r\nab\r\n0;z\r\nA: b\r\nc-d: e\r\n\r\n",
		"5\r\n1234\r\n0\r\n\r\n", "5\n12345\n0\n\n", "5 \r\n12345\r\n0\r\n\r\n", "0x5\r\n12345\r\n0\r\n\r\n", "-1\r\n", "ffffffffffffffff\r\n", "00000000000000005\r\n12345\r\n0\r\n\r\n",
		"0000000000000005\r\n12345\r\n0\r\n\r\n", "5;a\nb\r\n12345\r\n0\r\n\r\n", "0\r\nContent-Length: 1\r\n\r\n", "0\r\nA: b\r\n c\r\n\r\n", "0\r\n\nA: b\r\n\r\n", "\r\n",
	}
)

func pick(r *rand.Rand, words []string) string { return words[r.IntN(len(words))] }

// randomStream returns a few requests, most of them valid, some with damaged bytes.
func randomStream(r *rand.Rand) string {
	var b strings.Builder
	for range 1 + r.IntN(3) {
		if r.IntN(3) > 0 {
			fmt.Fprintf(&b, "%s %s %s\r\n", pick(r, methods[:4]), pick(r, targets[:3]), pick(r, versions[:4]))
		} else {
			fmt.Fprintf(&b, "%s %s %s\r\n", pick(r, methods), pick(r, targets), pick(r, versions))
		}
		b.WriteString(randomFields(r, "Host: a\r\n"))
	}
	return damaged(r, b.String())
}

// randomFields returns a header that begins with the line first, and a body.
func randomFields(r *rand.Rand, first string) string {
	var b strings.Builder
	if r.IntN(8) > 0 {
		b.WriteString(first)
	}
	for range r.IntN(4) {
		b.WriteString(pick(r, lines) + "\r\n")
	}
	switch r.IntN(4) {
	case 0:
		b.WriteString("Content-Length: 5\r\n\r\n12345")
	case 1:
		b.WriteString("Transfer-Encoding: chunked\r\n\r\n" + pick(r, bodies[3:]))
	default:
		b.WriteString("\r\n" + pick(r, bodies))
	}
	return b.String()
}

// damaged returns s, every other time with bytes changed, removed, inserted or cut off.
func damaged(r *rand.Rand, s string) string {
	for r.IntN(2) == 0 && s != "" {
		i := r.IntN(len(s))
		const bytes = "\r\n \t:;,\x00\x7f\x80/%?#05aZ-"
		at := r.IntN(len(bytes))
		c := bytes[at : at+1]
		switch r.IntN(4) {
		case 0:
			s = s[:i] + s[i+1:]
		case 1:
			s = s[:i] + c + s[i:]
		case 2:
			s = s[:i] + c + s[i+1:]
		case 3:
			s = s[:i]
		}
	}
	return s
}

func TestRandomRequestsReadAsByNetHTTP(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 5))
	accepted := 0
	for range rounds(20000) {
		stream := randomStream(r)
		compare(t, stream)
		if t.Failed() {
			return
		}
		if theirs := netHTTP(stream); len(theirs) > 0 && theirs[0].err == nil {
			accepted++
		}
	}
	if accepted < rounds(20000)/8 {
		t.Errorf("net/http accepted only %d streams: the random streams are invalid too often", accepted)
	}
}

// rounds returns n, or fewer under -short.
func rounds(n int) int {
	if testing.Short() {
		return n / 10
	}
	return n
}
