package http1_test

import (
	"testing"

	"github.com/spindleloop/spindle/internal/http1"
)

// Wherever the input is split, the result of AppendUnread and the remaining input are a
// chunked body with the same content.
func TestAppendUnreadRestoresAChunkedBody(t *testing.T) {
	const stream = "5\r\nhello\r\n0000A;x=y\r\n0123456789\r\n1\r\n!\r\n0\r\nX-T: 1\r\n\r\n"
	const want = "hello0123456789!"
	read := func(body string) (content string, whole bool) {
		p := http1.NewRequestParser(http1.Limits{})
		for data := []byte(chunkedHead + body); ; {
			n, event, err := p.Parse(data)
			if err != nil {
				t.Errorf("%q: %v", body, err)
				return content, false
			}
			data = data[n:]
			switch event {
			case http1.Data:
				content += string(p.Data())
			case http1.End:
				return content, len(data) == 0
			case http1.More:
				return content, false
			}
		}
	}
	for at := range len(stream) {
		p := http1.NewRequestParser(http1.Limits{})
		var unread []byte
		data := []byte(chunkedHead + stream[:at])
		for more := true; more; {
			n, event, err := p.Parse(data)
			if err != nil {
				t.Fatal(err)
			}
			data = data[n:]
			if event == http1.Data {
				unread = append(unread, p.Data()...)
			}
			more = event != http1.More
		}
		again := string(p.AppendUnread(nil, unread)) + stream[at:]
		if content, whole := read(again); content != want || !whole {
			t.Errorf("split at %d: %q was read as %q, complete %v", at, again, content, whole)
		}
	}
}
