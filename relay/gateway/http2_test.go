package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/http2"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/gateway"
	"github.com/spindleloop/spindle/web"
)

// TestOnStreams: plain requests, events and both kinds of WebSockets on streams of one HTTP/2
// connection.
func TestOnStreams(t *testing.T) {
	for name, wrap := range map[string]func(http.Handler) http.Handler{
		"in tasks":      web.Inline,
		"on goroutines": func(h http.Handler) http.Handler { return h },
	} {
		t.Run(name, func(t *testing.T) {
			bus := relay.NewLocal(relay.LocalOptions{})
			serve(t, bus, "work", relay.ServeOptions{}, work(nil))
			webPlane(t, bus, relay.CallerOptions{}, func(c *relay.Caller) http.Handler {
				return wrap(gateway.New(c, gateway.Route{Subject: "work"}))
			}, func(ctx context.Context, url string) error {
				_, err := spindle.Blocking(ctx, func() (struct{}, error) { return struct{}{}, useStreams(url) })
				return err
			})
		})
	}
}

// useStreams makes requests one after the other on one connection.
func useStreams(url string) error {
	nc, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		return err
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(20 * time.Second))
	client := &streamClient{nc, http2.NewShared(http2.Config{Role: http2.Client}).NewConn(nil)}
	const text, closes = 1, 8
	message := func(kind byte, text string) string {
		return string([]byte{0x80 | kind, 0x80 | byte(len(text)), 0, 0, 0, 0}) + text
	}
	socket := []string{":protocol", "websocket", "sec-websocket-version", "13"}
	calls := append(slices.Clone(socket), "sec-websocket-protocol", callsProtocol)
	for _, c := range []struct {
		fields     []string
		body, want string
	}{
		{nil, "echo", "echo"},
		{[]string{"accept", "text/event-stream"}, "items", "data: one\n\ndata: two\ndata: lines\n\ndata: three\n\n"},
		{socket, message(text, "echo"), "\x81\x04echo"},
		{calls, message(text, `{"type":"call","id":1,"body":"echo"}`), `{"type":"end","id":1}`},
	} {
		if err := client.do(c.fields, c.body, message(closes, "\x03\xe8"), c.want); err != nil {
			return err
		}
	}
	return nil
}

// streamClient is a client of HTTP/2, for one request at a time.
type streamClient struct {
	nc net.Conn
	fc *http2.Conn
}

// do sends a request, or opens a tunnel if the first field is :protocol. It sends farewell on a tunnel when
// want was received, and waits for the end of the response.
func (c *streamClient) do(fields []string, body, farewell, want string) error {
	tunnel := len(fields) > 0 && fields[0] == ":protocol"
	method := "POST"
	if tunnel {
		method = "CONNECT"
	}
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	fields = append([]string{":method", method, ":scheme", "http", ":authority", "test", ":path", "/work"}, fields...)
	for i := 0; i < len(fields); i += 2 {
		// Never added to the table, which is not the same for two encoders.
		enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1], Sensitive: true})
	}
	var s http2.Stream
	c.fc.Request(&s, block.Bytes(), false)
	c.fc.SendData(&s, []byte(body), !tunnel)
	got := ""
	for !s.Closed() {
		if _, err := c.nc.Write(c.fc.Out); err != nil {
			return err
		}
		c.fc.Out = nil
		data := make([]byte, 4096)
		n, err := c.nc.Read(data)
		if err != nil {
			return fmt.Errorf("after %q: %w", got, err)
		}
		for data = data[:n]; ; {
			n, event, err := c.fc.Parse(data)
			if err != nil {
				return err
			}
			if data = data[n:]; event == http2.More {
				break
			}
			switch event {
			case http2.Head:
				if status := c.fc.Head().Status; status != http.StatusOK {
					return fmt.Errorf("%v: status %d", fields, status)
				}
			case http2.Data:
				got += string(c.fc.Data())
			case http2.Reset, http2.Goodbye:
				return fmt.Errorf("after %q: %v", got, c.fc.Code())
			}
		}
		if tunnel && s.Sending() && strings.HasSuffix(got, want) {
			c.fc.SendData(&s, []byte(farewell), true)
		}
	}
	if !strings.Contains(got, want) {
		return fmt.Errorf("got %q, want %q", got, want)
	}
	return nil
}
