package http1_test

import (
	"fmt"
	"net/http"

	"github.com/spindleloop/spindle/internal/http1"
)

// A connection's protocol receives data in pieces and answers each request as it
// completes.
func Example() {
	p := http1.NewRequestParser(http1.Limits{BodyBytes: 1 << 20})
	var out []byte

	received := func(data []byte) error {
		for {
			n, event, err := p.Parse(data)
			if err != nil {
				return err
			}
			data = data[n:]
			switch event {
			case http1.More:
				return nil
			case http1.Head:
				fmt.Printf("%s %s for %s\n", p.Method(), p.Target(), p.Host())
			case http1.Data:
				fmt.Printf("  %d bytes\n", len(p.Data()))
			case http1.End:
				out, err = http1.AppendResponseHead(out, &http1.ResponseHead{
					Status: 200,
					Length: 2,
					Header: http.Header{"Content-Type": {"text/plain"}},
				})
				if err != nil {
					return err
				}
				out = append(out, "ok"...)
			}
		}
	}

	for _, piece := range []string{
		"GET /first HTTP/1.1\r\nHost: example.org\r\n\r\nPOST /second HT",
		"TP/1.1\r\nHost: example.org\r\nContent-Length: 5\r\n\r\nhel",
		"lo",
		"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n",
	} {
		if err := received([]byte(piece)); err != nil {
			fmt.Printf("%v: answer %d and close\n", err, err.(*http1.Error).Status)
		}
	}
	fmt.Println(len(out), "bytes to write")
	// Output:
	// GET /first for example.org
	// POST /second for example.org
	//   3 bytes
	//   2 bytes
	// http1: malformed Content-Length: answer 400 and close
	// 132 bytes to write
}
