package pyapp_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/net/http2/hpack"

	"github.com/spindleloop/spindle/pyapp"
)

func TestWebSocketEcho(t *testing.T) {
	app := prepare(t, &pyapp.App{Target: "main:app"})
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			url := "ws" + strings.TrimPrefix(start(t, mounted(app)), "http") + "/api/echo"
			d := websocket.Dialer{Subprotocols: []string{"words"}, EnableCompression: true, HandshakeTimeout: limit}
			c, _, err := d.Dial(url, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if c.Subprotocol() != "words" {
				t.Error(c.Subprotocol())
			}
			for _, text := range []string{"hello", strings.Repeat("κόσμε ", 50_000)} {
				if err := c.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
					t.Fatal(err)
				}
				if _, got, err := c.ReadMessage(); err != nil || string(got) != "/api: "+text {
					t.Fatalf("%.60q, %v", got, err)
				}
			}
			c.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""))
			if _, _, err := c.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
				t.Error(err)
			}
		})
	}
}

// TestWebSocketOnAStream echoes a message over HTTP/2 (RFC 8441). Clients of net/http have no such requests.
func TestWebSocketOnAStream(t *testing.T) {
	app := prepare(t, &pyapp.App{Target: "main:app"})
	c, err := net.Dial("tcp", strings.TrimPrefix(serveWeb(t, mounted(app)), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(limit))
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, f := range []hpack.HeaderField{
		{Name: ":method", Value: "CONNECT"}, {Name: ":protocol", Value: "websocket"}, {Name: ":scheme", Value: "http"},
		{Name: ":path", Value: "/api/echo"}, {Name: ":authority", Value: "test"},
		{Name: "sec-websocket-version", Value: "13"}, {Name: "sec-websocket-protocol", Value: "words"},
	} {
		enc.WriteField(f)
	}
	frame := func(kind, flags byte, payload string) string {
		return string([]byte{0, 0, byte(len(payload)), kind, flags, 0, 0, 0, min(kind^4, 1)}) + payload
	}
	io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+frame(4, 0, "")+frame(1, 4, block.String())+
		frame(0, 0, "\x81\x85\x00\x00\x00\x00hello"))
	head, got := make(map[string]string), ""
	dec := hpack.NewDecoder(4096, func(f hpack.HeaderField) { head[f.Name] = f.Value })
	const echo = "\x81\x0b/api: hello"
	const want = echo + "\x88\x02\x03\xe8"
	for len(got) < len(want) {
		prefix := make([]byte, 9)
		if _, err := io.ReadFull(c, prefix); err != nil {
			t.Fatalf("got %q, %v, %v", got, head, err)
		}
		payload := make([]byte, int(prefix[0])<<16|int(prefix[1])<<8|int(prefix[2]))
		io.ReadFull(c, payload)
		switch prefix[3] {
		case 0:
			if got += string(payload); got == echo {
				io.WriteString(c, frame(0, 0, "\x88\x82\x00\x00\x00\x00\x03\xe8")) // a Close
			}
		case 1:
			dec.Write(payload)
		case 3, 7:
			t.Fatalf("got %q, %v, frame %d with %v", got, head, prefix[3], payload)
		}
	}
	if got != want || head[":status"] != "200" || head["sec-websocket-protocol"] != "words" || head["sec-websocket-accept"]+head["upgrade"] != "" {
		t.Errorf("got %q, %v", got, head)
	}
}

func TestWebSocketIsDenied(t *testing.T) {
	app := prepare(t, &pyapp.App{Target: "main:app"})
	_, res, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(serve(t, app), "http")+"/nothing", nil)
	if err == nil || res == nil || res.StatusCode != http.StatusForbidden {
		t.Error(res, err)
	}
}
