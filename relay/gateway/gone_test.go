package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/gateway"
	"github.com/spindleloop/spindle/sim"
	"github.com/spindleloop/spindle/stream"
	"github.com/spindleloop/spindle/ws"
)

// TestSilentClient: the server pings it, and disconnects it if it does not answer.
func TestSilentClient(t *testing.T) {
	for name, header := range map[string]string{"plain": "", "calls": "Sec-WebSocket-Protocol: " + callsProtocol + "\r\n"} {
		t.Run(name, func(t *testing.T) { silentClient(t, header) })
	}
}

// silentClient is a client that answers nothing after its handshake, which has a header.
func silentClient(t *testing.T, header string) {
	w := sim.NewWorld(1)
	handlers := 0
	w.Host("server").Serve(simPlane(&handlers, simHandler, gateway.Route{}))
	w.Host("client").Go(func(ctx context.Context) error {
		if err := spindle.Sleep(ctx, time.Second); err != nil { // the server listens
			return err
		}
		c, err := stream.Dial(ctx, "tcp", "server:80")
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: server\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"+header+"\r\n")
		if err != nil {
			return err
		}
		from := bufio.NewReader(c)
		if res, err := http.ReadResponse(from, nil); err != nil || res.StatusCode != http.StatusSwitchingProtocols {
			return fmt.Errorf("%+v, %w", res, err)
		}
		began, pinged := w.Now(), time.Duration(0)
		for err == nil {
			var head [2]byte // of a frame
			if _, err = io.ReadFull(from, head[:]); err == nil {
				_, err = from.Discard(int(head[1]))
			}
			if head[0] == 0x89 && pinged == 0 { // a ping
				pinged = w.Now() - began
			}
		}
		within := func(d, least, most time.Duration) bool { return least <= d && d <= most }
		if ended := w.Now() - began; !within(pinged, 29*time.Second, 31*time.Second) || !within(ended, 59*time.Second, 61*time.Second) {
			t.Errorf("pinged after %v, and disconnected after %v", pinged, ended)
		}
		return nil
	})
	if err := w.RunFor(5 * time.Minute); err != nil {
		t.Error(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

// TestSocketOfClientThatDoesNotRead: a client that makes a call on a plain WebSocket and does not read
// its items is disconnected.
func TestSocketOfClientThatDoesNotRead(t *testing.T) {
	w := sim.NewWorld(1)
	handlers := 0
	big := []byte(strings.Repeat("x", 100_000))
	var began, ended time.Duration
	w.Host("server").Serve(simPlane(&handlers, func(ctx context.Context, r *relay.Request) ([]byte, error) {
		began = w.Now()
		defer func() { ended = w.Now() }()
		for {
			if err := r.Send(ctx, big); err != nil {
				return nil, err
			}
		}
	}, gateway.Route{Timeout: time.Hour}))
	w.Host("client").Go(func(ctx context.Context) error {
		if err := spindle.Sleep(ctx, time.Second); err != nil { // the server listens
			return err
		}
		c, err := ws.Dial(ctx, "ws://server/", ws.Options{})
		if err != nil {
			return err
		}
		defer c.CloseNow()
		if err := c.Write(ctx, ws.Text, []byte("go")); err != nil {
			return err
		}
		return spindle.Sleep(ctx, 4*time.Minute)
	})
	if err := w.RunFor(5 * time.Minute); err != nil {
		t.Error(err)
	}
	if took := ended - began; took < 29*time.Second || took > 65*time.Second {
		t.Errorf("the call ran for %v", took)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}
