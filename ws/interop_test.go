package ws_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/ws"
)

// talk returns the messages that are echoed between our and other implementations.
func talk() (messages []string) {
	for _, n := range []int{0, 1, 125, 126, 1000, 65535, 65536, 300_000} {
		messages = append(messages, large(n))
	}
	return append(messages, "κόσμε 😀")
}

// servers returns our servers of each kind.
func servers(t *testing.T, o ws.Options) map[string]string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, err := ws.Accept(w, r, o); err == nil {
			echo(context.Background(), c)
		}
	}))
	t.Cleanup(s.Close)
	return map[string]string{
		"Socket": serveSockets(t, o, func() ws.Handler { return plainEcho{} }),
		"Conn":   s.Listener.Addr().String(),
	}
}

// TestGorillaClient connects gorilla's client to our servers, with and without
// compression.
func TestGorillaClient(t *testing.T) {
	for _, compress := range []bool{false, true} {
		for form, address := range servers(t, ws.Options{CompressFrom: 100, Subprotocols: []string{"echo"}}) {
			t.Run(fmt.Sprintf("%s, compression %v", form, compress), func(t *testing.T) {
				d := websocket.Dialer{EnableCompression: compress, Subprotocols: []string{"other", "echo"}}
				c, _, err := d.Dial("ws://"+address+"/", nil)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if c.Subprotocol() != "echo" {
					t.Errorf("subprotocol %q", c.Subprotocol())
				}
				for _, kind := range []int{websocket.TextMessage, websocket.BinaryMessage} {
					for _, message := range talk() {
						if err := c.WriteMessage(kind, []byte(message)); err != nil {
							t.Fatal(err)
						}
						if k, got, err := c.ReadMessage(); err != nil || k != kind || string(got) != message {
							t.Fatalf("%d bytes of kind %d, %v", len(got), k, err)
						}
					}
				}
				ponged := ""
				c.SetPongHandler(func(data string) error { ponged = data; return nil })
				c.WriteMessage(websocket.PingMessage, []byte("?"))
				c.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(4000, "bye"))
				if _, _, err := c.ReadMessage(); !websocket.IsCloseError(err, 4000) || ponged != "?" {
					t.Errorf("pong %q, %v", ponged, err)
				}
			})
		}
	}
}

// TestGorillaServer connects our clients to gorilla's server, with and without
// compression.
func TestGorillaServer(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u := websocket.Upgrader{EnableCompression: true, Subprotocols: []string{"echo"}}
		c, err := u.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer c.Close()
		for {
			kind, message, err := c.ReadMessage()
			if err != nil {
				return
			}
			if err := c.WriteMessage(kind, message); err != nil {
				return
			}
		}
	}))
	defer s.Close()
	url := "ws" + strings.TrimPrefix(s.URL, "http") + "/"
	for name, o := range map[string]ws.Options{"plain": {}, "compressed": {CompressFrom: 100}} {
		o.Subprotocols = []string{"echo"}
		t.Run(name, func(t *testing.T) { talkTo(t, url, o) })
	}
}

// talkTo sends all messages to an echo server, with both kinds of client.
func talkTo(t *testing.T, url string, o ws.Options) {
	t.Run("Conn", func(t *testing.T) {
		if err := spindle.Run(t.Context(), func(ctx context.Context) error {
			c, err := ws.Dial(ctx, url, o)
			if err != nil {
				return err
			}
			defer c.CloseNow()
			if c.Subprotocol() != "echo" || c.Compressed() != (o.CompressFrom > 0) {
				t.Errorf("negotiated %q, compressed %v", c.Subprotocol(), c.Compressed())
			}
			for i, message := range talk() {
				kind := ws.Text + ws.Kind(i%2)
				if err := c.Write(ctx, kind, []byte(message)); err != nil {
					return err
				}
				if k, got, err := c.Read(ctx); err != nil || k != kind || string(got) != message {
					return fmt.Errorf("%d bytes of %v, %w", len(got), k, err)
				}
			}
			return c.Close(ws.NormalClosure, "bye")
		}); err != nil {
			t.Error(err)
		}
	})
	t.Run("Socket", func(t *testing.T) {
		messages, h := talk(), &socketEcho{t: t, ended: make(chan error, 1)}
		h.onOpen = func(s *ws.Socket) { s.Send(ws.Text, []byte(messages[0])) }
		h.onMessage = func(s *ws.Socket, kind ws.Kind, message []byte) {
			if string(message) != messages[0] {
				t.Errorf("%d bytes, want %d", len(message), len(messages[0]))
			}
			if messages = messages[1:]; len(messages) == 0 {
				s.Close(ws.NormalClosure, "bye")
				return
			}
			s.Send(ws.Text, []byte(messages[0]))
		}
		steady(t, func(l *loop.Loop) {
			o.OnError = func(err error) { h.ended <- err }
			ws.Connect(context.Background(), l, url, h, o)
		})
		if err := <-h.ended; codeOf(err) != 1000 || len(messages) > 0 {
			t.Errorf("%v, with %d messages to go", err, len(messages))
		}
	})
}
