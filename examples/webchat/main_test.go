package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/spindleloop/spindle/examples/internal/servertest"
	"github.com/spindleloop/spindle/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// start runs the server until stop is called, or the test ends.
func start(t *testing.T) (addr string, stop func()) {
	t.Helper()
	s := servertest.Start(t, func(ctx context.Context, out io.Writer) error { return run(ctx, "127.0.0.1:0", out) })
	return s.Addr(t), s.Stop
}

// guest uses the client of another library.
type guest struct {
	t *testing.T
	*websocket.Conn
}

func join(t *testing.T, addr, name string) guest {
	t.Helper()
	d := websocket.Dialer{EnableCompression: true, HandshakeTimeout: servertest.Timeout}
	c, _, err := d.Dial("ws://"+addr+"/", http.Header{"Origin": {"http://" + addr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetReadDeadline(time.Now().Add(servertest.Timeout))
	g := guest{t, c}
	g.say(name)
	return g
}

func (g guest) say(line string) {
	g.t.Helper()
	if err := g.WriteMessage(websocket.TextMessage, []byte(line)); err != nil {
		g.t.Fatal(err)
	}
}

func (g guest) expect(want string) {
	g.t.Helper()
	if _, got, err := g.ReadMessage(); err != nil || string(got) != want {
		g.t.Fatalf("got %.60q, %v; want %.60q", got, err, want)
	}
}

func TestGuestsGetEachOthersMessages(t *testing.T) {
	addr, stop := start(t)
	ann := join(t, addr, "Ann")
	ann.expect("* Ann has come")
	bob := join(t, addr, "Bob")
	for _, g := range []guest{ann, bob} {
		g.expect("* Bob has come")
	}
	long := strings.Repeat("far ", 800) // compressed
	for _, line := range []string{"hello", "<b>κόσμε</b>", long} {
		ann.say(line)
		ann.expect("Ann: " + line)
		bob.expect("Ann: " + line)
	}
	ann.WriteMessage(websocket.CloseMessage, nil)
	ann.ReadMessage() // the answer
	ann.Close()
	bob.expect("* Ann has left")
	stop()
	if _, _, err := bob.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseGoingAway) {
		t.Errorf("at shutdown Bob reads %v", err)
	}
}

func TestThePage(t *testing.T) {
	addr, _ := start(t)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: servertest.Timeout}
	res, err := client.Get("http://" + addr + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got, err := io.ReadAll(res.Body); err != nil || !bytes.Equal(got, page) || res.Header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("%d bytes of %q, %v", len(got), res.Header.Get("Content-Type"), err)
	}
}

func TestAnotherOriginIsRefused(t *testing.T) {
	addr, _ := start(t)
	_, res, err := websocket.DefaultDialer.Dial("ws://"+addr+"/", http.Header{"Origin": {"http://evil.example"}})
	if err == nil || res == nil || res.StatusCode != http.StatusForbidden {
		t.Errorf("%v, %v", res, err)
	}
}

// TestASlowGuestIsDisconnected has a guest that never reads. The others get every message.
func TestASlowGuestIsDisconnected(t *testing.T) {
	addr, _ := start(t)
	ann := join(t, addr, "Ann")
	ann.expect("* Ann has come")
	slow := join(t, addr, "Slow")
	slow.NetConn().(*net.TCPConn).SetReadBuffer(4096) // full sooner
	ann.expect("* Slow has come")
	long := ""
	for i := range 750 { // a text that does not compress
		long += fmt.Sprint(i * i * 7919 % 99991)
	}
	left := false
	for i := 0; !left && i < 20_000; i++ { // far beyond the size of socket buffers
		line := fmt.Sprint(i, " ", long)
		ann.SetReadDeadline(time.Now().Add(servertest.Timeout))
		ann.say(line)
		_, got, err := ann.ReadMessage()
		if err != nil {
			t.Fatal(err)
		}
		if left = string(got) == "* Slow has left"; !left && string(got) != "Ann: "+line {
			t.Fatalf("got %.60q", got)
		}
	}
	if !left {
		t.Error("the guest that does not read was kept")
	}
}

func TestAnAddressInUse(t *testing.T) {
	addr, _ := start(t)
	if err := run(t.Context(), addr, io.Discard); err == nil {
		t.Error("two servers at one address")
	}
}
