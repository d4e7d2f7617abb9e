package http1_test

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/http1"
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

// drain parses all of data and returns the number of requests.
func drain(p *http1.RequestParser, data []byte) (requests int) {
	for {
		n, event, err := p.Parse(data)
		if err != nil {
			panic(err)
		}
		data = data[n:]
		switch event {
		case http1.More:
			return requests
		case http1.End:
			requests++
		}
	}
}

func TestParsingDoesNotAllocate(t *testing.T) {
	for _, s := range streams {
		p := http1.NewRequestParser(http1.Limits{})
		data := []byte(s.stream)
		for name, run := range map[string]func(){
			"whole":     func() { drain(p, data) },
			"in pieces": func() { drain(p, data[:20]); drain(p, data[20:40]); drain(p, data[40:]) },
		} {
			run()
			if n := testing.AllocsPerRun(100, run); n != 0 {
				t.Errorf("%s %s: %v allocations", s.name, name, n)
			}
		}
	}
}

func TestWritingDoesNotAllocate(t *testing.T) {
	date := http1.AppendDate(nil, time.Unix(0, 0))
	head := http1.ResponseHead{Status: 200, Length: 5, Date: date, Header: http.Header{"Content-Type": {"text/plain"}, "Server": {"spindle"}}}
	trailers := http.Header{"X-Sum": {"1"}}
	var buf []byte
	run := func() {
		buf, _ = http1.AppendResponseHead(buf[:0], &head)
		buf = http1.AppendChunk(buf, "hello")
		buf, _ = http1.AppendLastChunk(buf, trailers)
		buf, _ = http1.AppendRequestHead(buf, &http1.RequestHead{Method: "GET", Target: "/", Host: "a", Header: head.Header})
	}
	run()
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkParse(b *testing.B) {
	for _, s := range streams {
		data := []byte(s.stream)
		b.Run(s.name, func(b *testing.B) {
			p := http1.NewRequestParser(http1.Limits{})
			b.ReportAllocs()
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if drain(p, data) != s.requests {
					b.Fatal("requests are missing")
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*s.requests), "ns/request")
		})
	}
}

func BenchmarkNetHTTP(b *testing.B) {
	for _, s := range streams {
		data := []byte(s.stream)
		b.Run(s.name, func(b *testing.B) {
			source := bytes.NewReader(nil)
			br := bufio.NewReader(source)
			b.ReportAllocs()
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				source.Reset(data)
				br.Reset(source)
				for range s.requests {
					req, err := http.ReadRequest(br)
					if err != nil {
						b.Fatal(err)
					}
					if _, err := io.Copy(io.Discard, req.Body); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*s.requests), "ns/request")
		})
	}
}

// BenchmarkParsePieces parses heads that arrive in two pieces.
func BenchmarkParsePieces(b *testing.B) {
	data := []byte(browser)
	p := http1.NewRequestParser(http1.Limits{})
	b.ReportAllocs()
	for b.Loop() {
		drain(p, data[:300])
		drain(p, data[300:])
	}
}

func BenchmarkAddTo(b *testing.B) {
	p := http1.NewRequestParser(http1.Limits{})
	data := []byte(browser)
	b.ReportAllocs()
	for b.Loop() {
		drain(p, nil)
		p.Parse(data)
		p.AddTo(make(http.Header, p.FieldCount()))
	}
}

func BenchmarkResponseHead(b *testing.B) {
	date := http1.AppendDate(nil, time.Unix(0, 0))
	head := http1.ResponseHead{Status: 200, Length: 13, Date: date, Header: http.Header{"Content-Type": {"text/plain"}, "Server": {"spindle"}}}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = http1.AppendResponseHead(buf[:0], &head)
	}
}
