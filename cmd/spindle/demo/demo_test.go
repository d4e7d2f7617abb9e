package demo_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/cmd/spindle/demo"
	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/ws"
)

func TestMain(m *testing.M) { leak.Main(m) }

// serve runs the server until the test ends, and returns its URL.
func serve(t testing.TB, dir string, loops int) string {
	t.Helper()
	return serveWith(t, demo.Options{Dir: dir}, loops)
}

func serveWith(t testing.TB, o demo.Options, loops int) string {
	t.Helper()
	return serveTLS(t, o, loops, nil)
}

// serveTLS is serveWith over TLS, unless config is nil.
func serveTLS(t testing.TB, o demo.Options, loops int, config *tls.Config) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := demo.NewServer(ctx, o)
	s.Loops, s.TLS = loops, config
	scheme := "http://"
	if config != nil {
		scheme = "https://"
	}
	at, ended := make(chan net.Addr, 1), make(chan error, 1)
	s.OnListen = func(a net.Addr) { at <- a }
	go func() { ended <- s.ListenAndServe(ctx, "127.0.0.1:0") }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case a := <-at:
		return scheme + a.String()
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
		return ""
	}
}

func fetch(t *testing.T, method, url, body string) (status int, header http.Header, text string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(data)
}

func TestEndpoints(t *testing.T) {
	url := serve(t, "", 1)
	for _, c := range []struct {
		method, path, body string
		status             int
		text               string
	}{
		{"GET", "/plaintext", "", 200, "Hello, World!"},
		{"GET", "/plaintext-handler", "", 200, "Hello, World!"},
		{"GET", "/plaintext-goroutine", "", 200, "Hello, World!"},
		{"GET", "/json", "", 200, "{\"message\":\"Hello, World!\"}\n"},
		{"POST", "/echo", "over and out", 200, "over and out"},
		{"GET", "/echo", "", 405, "Method Not Allowed\n"},
		{"GET", "/delay?ms=1", "", 200, "waited 1ms\n"},
		{"GET", "/delay?ms=-1", "", 400, "ms must be a number from 0 to 10000\n"},
		{"GET", "/delay?ms=10001", "", 400, "ms must be a number from 0 to 10000\n"},
		{"GET", "/block?ms=1", "", 200, "blocked 1ms\n"},
		{"GET", "/block?ms=1&offload=1", "", 200, "blocked 1ms\n"},
		{"GET", "/block?ms=1&offload=2", "", 400, "offload must be 0 or 1\n"},
		{"GET", "/chat/ws", "", 400, "name must have 1 to 40 bytes\n"},
		{"GET", "/nothing", "", 404, "404 page not found\n"},
	} {
		status, _, text := fetch(t, c.method, url+c.path, c.body)
		if status != c.status || text != c.text {
			t.Errorf("%s %s: %d %q, want %d %q", c.method, c.path, status, text, c.status, c.text)
		}
	}
	for _, path := range []string{"/", "/chat"} {
		status, header, text := fetch(t, "GET", url+path, "")
		if status != 200 || header.Get("Content-Type") != "text/html; charset=utf-8" || !strings.HasPrefix(text, "<!doctype html>") {
			t.Errorf("%s: %d %q %.20q", path, status, header.Get("Content-Type"), text)
		}
	}
}

func TestFilesOfADirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("a file"), 0o644); err != nil {
		t.Fatal(err)
	}
	url := serve(t, dir, 1)
	if status, _, text := fetch(t, "GET", url+"/notes.txt", ""); status != 200 || text != "a file" {
		t.Errorf("%d %q", status, text)
	}
	if status, _, _ := fetch(t, "GET", url+"/../../etc/passwd", ""); status != 404 {
		t.Errorf("outside of the directory: %d", status)
	}
	if status, _, text := fetch(t, "GET", url+"/plaintext", ""); status != 200 || text != "Hello, World!" {
		t.Errorf("beside it: %d %q", status, text)
	}
}

// TestEventsEndWithTheServer checks that an open event stream does not keep the server from
// shutting down.
func TestEventsEndWithTheServer(t *testing.T) {
	url := serve(t, "", 1)
	resp, err := http.Get(url + "/events")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if kind := resp.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Errorf("type %q", kind)
	}
	lines := bufio.NewScanner(resp.Body)
	for range 2 { // events
		var got []string
		for lines.Scan() && lines.Text() != "" {
			got = append(got, lines.Text())
		}
		if len(got) != 2 || got[0] != "event: stats" || !strings.HasPrefix(got[1], "data: ") {
			t.Fatalf("an event is %q, %v", got, lines.Err())
		}
		var stats map[string]int
		if err := json.Unmarshal([]byte(got[1][len("data: "):]), &stats); err != nil || stats["turns"] == 0 {
			t.Errorf("%v of %q", err, got[1])
		}
	}
}

// TestSocketsOfSeveralLoops checks that lines reach the members on all loops in order.
func TestSocketsOfSeveralLoops(t *testing.T) {
	const members, lines = 8, 20
	address := "ws" + strings.TrimPrefix(serve(t, "", 2), "http")
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		var all []*ws.Conn
		for range members {
			c, err := ws.Dial(ctx, address+"/chat/ws?name=x", ws.Options{})
			if err != nil {
				return err
			}
			defer c.CloseNow()
			all = append(all, c)
		}
		for i := range lines {
			if err := all[0].Write(ctx, ws.Text, []byte{byte('a' + i)}); err != nil {
				return err
			}
		}
		for i, c := range all {
			for next := 0; next < lines; {
				_, message, err := c.Read(ctx)
				if err != nil {
					return err
				}
				var heard struct {
					From, Text string
					Count      int
				}
				if err := json.Unmarshal(message, &heard); err != nil {
					return err
				}
				if heard.From == "" {
					continue // a member joined
				}
				if heard.Text != string(rune('a'+next)) {
					t.Errorf("member %d gets %q as line %d", i, heard.Text, next)
				}
				next++
			}
		}
		echo, err := ws.Dial(ctx, address+"/ws", ws.Options{})
		if err != nil {
			return err
		}
		defer echo.CloseNow()
		if err := echo.Write(ctx, ws.Binary, []byte{1, 2, 3}); err != nil {
			return err
		}
		kind, message, err := echo.Read(ctx)
		if kind != ws.Binary || string(message) != "\x01\x02\x03" || err != nil {
			t.Errorf("came back: %v %q %v", kind, message, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestBlockingHandlerIsReported checks that the watchdog's report names the blocking handler.
func TestBlockingHandlerIsReported(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	named := make(chan string, 1)
	l, err := loop.New(loop.Options{Watchdog: 10 * time.Millisecond, OnBlocked: func(b loop.Blocked) {
		if b.Starved { // on a busy machine any turn may be
			return
		}
		select {
		case named <- b.String():
		default:
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	service, err := demo.NewServer(ctx, demo.Options{}).Listen(l, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- l.Run(context.Background()) }()
	if status, _, _ := fetch(t, "GET", "http://"+service.Addr().String()+"/block?ms=200", ""); status != 200 {
		t.Errorf("status %d", status)
	}
	if report := <-named; !strings.Contains(report, "demo.block(") {
		t.Errorf("the report does not name the handler:\n%s", report)
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	service.Drain(l.Stop)
	if err := errors.Join(<-ended, l.Close()); err != nil {
		t.Error(err)
	}
}
