package ws_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/spindleloop/spindle/internal/browsertest"
	"github.com/spindleloop/spindle/web"
	"github.com/spindleloop/spindle/ws"
)

// serveHTTP2 serves h over TLS, with WebSockets on streams. It returns the address.
func serveHTTP2(t *testing.T, h http.Handler) string {
	t.Helper()
	made := httptest.NewUnstartedServer(nil)
	made.StartTLS()
	s := &web.Server{Handler: h, ExtendedConnect: true, TLS: &tls.Config{Certificates: made.TLS.Certificates}}
	made.Close()
	listens := make(chan net.Addr, 1)
	s.OnListen = func(a net.Addr) { listens <- a }
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.ListenAndServe(ctx, "127.0.0.1:0") }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return (<-listens).String()
}

// echoOverHTTP2 has a page at / with a socket to /ws, which sends messages back. It notes the
// protocols of the sockets.
func echoOverHTTP2(protos chan<- string, inline bool) http.Handler {
	socket := func(w http.ResponseWriter, r *http.Request) {
		c, err := ws.Accept(w, r, ws.Options{CompressFrom: 100})
		if err != nil {
			protos <- err.Error()
			return
		}
		protos <- r.Proto
		ctx := context.Background()
		if inline {
			ctx = r.Context()
		}
		echo(ctx, c)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `<!doctype html><title>waits</title><script>
			fetch('/other').then(() => { // the connection is there now
				const messages = ['', 'hello', 'x'.repeat(300000)];
				let at = 0;
				const c = new WebSocket('wss://' + location.host + '/ws');
				c.onopen = () => c.send(messages[0]);
				c.onmessage = e => {
					if (e.data !== messages[at]) document.title = 'wrong';
					else if (++at < messages.length) c.send(messages[at]);
					else c.close(4000, 'bye');
				};
				c.onclose = e => document.title = 'closed ' + at + ' ' + e.code;
			});
		</script>`)
	})
	mux.HandleFunc("/other", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) })
	if mux.Handle("/ws", http.HandlerFunc(socket)); inline {
		return web.Inline(mux)
	}
	return mux
}

// TestChromiumOverHTTP2 opens a WebSocket in Chromium, on the connection of the page.
func TestChromiumOverHTTP2(t *testing.T) {
	ctx := browsertest.Start(t, chromedp.Flag("ignore-certificate-errors", true))
	protos := make(chan string, 10)
	for _, inline := range []bool{false, true} {
		addr := serveHTTP2(t, echoOverHTTP2(protos, inline))
		browsertest.Look(t, ctx, chromedp.Navigate("https://"+addr+"/"), browsertest.Until("document.title !== 'waits'"))
		var title string
		browsertest.Look(t, ctx, chromedp.Title(&title))
		if title != "closed 3 4000" {
			t.Errorf("inline %v: the page says %q", inline, title)
		}
		if proto := <-protos; proto != "HTTP/2.0" {
			t.Errorf("inline %v: the socket came by %s", inline, proto)
		}
	}
}

// TestNodeOverHTTP2 opens a WebSocket on a stream of Node's client, and sees it end when the
// server drains.
func TestNodeOverHTTP2(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil || testing.Short() {
		t.Skip("Node is not installed, or -short")
	}
	protos := make(chan string, 10)
	addr := serveHTTP2(t, echoOverHTTP2(protos, false))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "node", "-e", `
		const s = require("http2").connect("https://" + process.argv[1], {rejectUnauthorized: false});
		s.on("remoteSettings", () => {
			const r = s.request({":method": "CONNECT", ":protocol": "websocket", ":path": "/ws", "sec-websocket-version": "13", origin: "https://" + process.argv[1]});
			r.on("response", h => console.log(h[":status"]));
			const all = [];
			r.on("data", d => { all.push(d); if (Buffer.concat(all).toString("hex") === "81026869") r.write(Buffer.from("888200000000" + "03e8", "hex")); });
			r.on("end", () => { console.log(Buffer.concat(all).toString("hex")); s.close(); });
			r.write(Buffer.from("818200000000" + "6869", "hex"));
		});`, addr).CombinedOutput()
	if got := strings.TrimSpace(string(out)); err != nil || got != "200\n81026869880203e8" {
		t.Errorf("it printed %q, %v", got, err)
	}
	if proto := <-protos; proto != "HTTP/2.0" {
		t.Errorf("the socket came by %s", proto)
	}
}
