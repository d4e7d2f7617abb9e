// Package http1 compares the parser of internal/http1 with those of fasthttp and net/http:
//
//	go test -run '^$' -bench . -count 6 ./http1
//
// The peers read from a bufio.Reader, which is refilled from memory for every round. The
// parser of internal/http1 reads the memory directly.
package http1

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/internal/http1"
	"github.com/valyala/fasthttp"
)

const (
	plain   = "GET /plaintext HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n"
	browser = "GET /wiki/Main_Page?action=raw HTTP/1.1\r\n" +
		"Host: www.example.org\r\n" +
		"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n" +
		"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n" +
		"Accept-Language: en-US,en;q=0.5\r\n" +
		"Accept-Encoding: gzip, deflate, br, zstd\r\n" +
		"Referer: https://www.example.org/wiki/Portal\r\n" +
		"Connection: keep-alive\r\n" +
		"Cookie: session=0123456789abcdef0123456789abcdef; theme=dark; consent=1\r\n" +
		"Upgrade-Insecure-Requests: 1\r\n" +
		"Sec-Fetch-Dest: document\r\n" +
		"Sec-Fetch-Mode: navigate\r\n" +
		"Sec-Fetch-Site: same-origin\r\n\r\n"
	post = "POST /upload HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" +
		"20\r\n0123456789abcdef0123456789abcdef\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n"
)

var streams = []struct {
	name, stream string
	requests     int
}{
	{"plain", plain, 1},
	{"browser", browser, 1},
	{"pipelined16", strings.Repeat(plain, 16), 16},
	{"chunked", post, 1},
}

func BenchmarkSpindle(b *testing.B) {
	run(b, func(data []byte) func(int) error {
		p := http1.NewRequestParser(http1.Limits{})
		return func(int) error {
			for rest := data; ; {
				n, event, err := p.Parse(rest)
				if err != nil || event == http1.More {
					return err
				}
				rest = rest[n:]
			}
		}
	})
}

func BenchmarkFasthttp(b *testing.B) {
	run(b, func(data []byte) func(int) error {
		source := bytes.NewReader(nil)
		br := bufio.NewReader(source)
		var req fasthttp.Request
		return func(requests int) error {
			source.Reset(data)
			br.Reset(source)
			for range requests {
				if err := req.Read(br); err != nil {
					return err
				}
			}
			return nil
		}
	})
}

func BenchmarkNetHTTP(b *testing.B) {
	run(b, func(data []byte) func(int) error {
		source := bytes.NewReader(nil)
		br := bufio.NewReader(source)
		return func(requests int) error {
			source.Reset(data)
			br.Reset(source)
			for range requests {
				req, err := http.ReadRequest(br)
				if err != nil {
					return err
				}
				if _, err := io.Copy(io.Discard, req.Body); err != nil {
					return err
				}
			}
			return nil
		}
	})
}

func run(b *testing.B, parser func(data []byte) func(requests int) error) {
	for _, s := range streams {
		b.Run(s.name, func(b *testing.B) {
			parse := parser([]byte(s.stream))
			b.ReportAllocs()
			for b.Loop() {
				if err := parse(s.requests); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*s.requests), "ns/request")
		})
	}
}
