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

// onStream is a WebSocket on a stream of HTTP/2 (RFC 8441). Clients of net/http have no such requests.
type onStream struct {
	net.Conn
	head map[string]string // of the response
	dec  *hpack.Decoder
}

// openOnStream opens a WebSocket on a stream, and sends a message before the server has answered.
func openOnStream(t *testing.T, url string) *onStream {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
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
	io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+http2Frame(4, 0, "")+http2Frame(1, 4, block.String())+
		http2Frame(0, 0, "\x81\x85\x00\x00\x00\x00hello"))
	s := &onStream{Conn: c, head: make(map[string]string)}
	s.dec = hpack.NewDecoder(4096, func(f hpack.HeaderField) { s.head[f.Name] = f.Value })
	return s
}

// http2Frame returns a short frame, of the connection if it is SETTINGS, and otherwise of the first stream.
func http2Frame(kind, flags byte, payload string) string {
	return string([]byte{0, 0, byte(len(payload)), kind, flags, 0, 0, 0, min(kind^4, 1)}) + payload
}

// next returns the next frame. It decodes headers.
func (s *onStream) next(t *testing.T) (kind byte, payload string) {
	t.Helper()
	prefix := make([]byte, 9)
	if _, err := io.ReadFull(s, prefix); err != nil {
		t.Fatal(s.head, err)
	}
	b := make([]byte, int(prefix[0])<<16|int(prefix[1])<<8|int(prefix[2]))
	if _, err := io.ReadFull(s, b); err != nil {
		t.Fatal(s.head, err)
	}
	if prefix[3] == 1 {
		s.dec.Write(b)
	}
	return prefix[3], string(b)
}

func TestWebSocketOnAStream(t *testing.T) {
	app := prepare(t, &pyapp.App{Target: "main:app"})
	s := openOnStream(t, serveWeb(t, mounted(app)))
	got := ""
	const echo = "\x81\x0b/api: hello"
	const want = echo + "\x88\x02\x03\xe8"
	for len(got) < len(want) {
		switch kind, payload := s.next(t); kind {
		case 0:
			if got += payload; got == echo {
				io.WriteString(s, http2Frame(0, 0, "\x88\x82\x00\x00\x00\x00\x03\xe8")) // a Close
			}
		case 3, 7:
			t.Fatalf("got %q, %v, frame %d with %q", got, s.head, kind, payload)
		}
	}
	if head := s.head; got != want || head[":status"] != "200" || head["sec-websocket-protocol"] != "words" || head["sec-websocket-accept"]+head["upgrade"] != "" {
		t.Errorf("got %q, %v", got, head)
	}
}

// TestTunnelThatFailsAfter200 mounts an app behind a middleware that hides Hijack. On a stream, the response has begun
// then: an error text would be taken for messages of the WebSocket.
func TestTunnelThatFailsAfter200(t *testing.T) {
	app := prepare(t, &pyapp.App{Target: "main:app"})
	hides := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mounted(app).ServeHTTP(struct{ http.ResponseWriter }{w}, r)
	})
	s := openOnStream(t, serveWeb(t, hides))
	for {
		switch kind, payload := s.next(t); kind {
		case 0:
			t.Fatalf("the stream has %q after %v", payload, s.head)
		case 3: // RST_STREAM
			return
		}
	}
}

func TestWebSocketIsDenied(t *testing.T) {
	app := prepare(t, &pyapp.App{Target: "main:app"})
	_, res, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(serve(t, app), "http")+"/nothing", nil)
	if err == nil || res == nil || res.StatusCode != http.StatusForbidden {
		t.Error(res, err)
	}
}
