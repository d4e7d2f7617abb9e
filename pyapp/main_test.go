package pyapp_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/pyapp"
	"github.com/spindleloop/spindle/web"
)

// limit is for tests that fail. The others do not wait so long.
const limit = 2 * time.Minute

func TestMain(m *testing.M) {
	if os.Getenv(orphanVariable) != "" {
		runOrphan()
		return
	}
	pyapp.SetGrace(limit)
	leak.Main(m)
}

// python returns the interpreter for tests. It needs the package of the directory python,
// and FastAPI.
func python(t testing.TB) string {
	t.Helper()
	path := os.Getenv("SPINDLE_PYTHON")
	if path == "" {
		t.Skip("SPINDLE_PYTHON is not set: it names an interpreter with the packages spindle-loop and fastapi")
	}
	return path
}

// prepare completes an App for a test, which closes it.
func prepare(t testing.TB, app *pyapp.App) *pyapp.App {
	t.Helper()
	if app.Python == "" {
		app.Python = python(t)
	}
	if app.Dir == "" {
		app.Dir = "testdata"
	}
	app.StartTimeout, app.DrainTimeout = limit, limit
	if app.ErrorLog == nil {
		app.ErrorLog = slog.New(slog.DiscardHandler)
	}
	t.Cleanup(func() {
		if err := app.Close(); err != nil {
			t.Error(err)
		}
	})
	return app
}

// serve serves a handler with net/http, and returns its URL.
func serve(t testing.TB, h http.Handler) string {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = both()
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}

// serveWeb is serve with package web.
func serveWeb(t testing.TB, h http.Handler) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &web.Server{Handler: h, Protocols: both(), ExtendedConnect: true, ErrorLog: slog.New(slog.DiscardHandler)}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return "http://" + ln.Addr().String()
}

// both returns HTTP/1.1 and HTTP/2, without TLS.
func both() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

// servers are the servers that an App is mounted in.
var servers = map[string]func(testing.TB, http.Handler) string{"net/http": serve, "web": serveWeb}

// client makes a client without connections of other tests.
func client(t testing.TB) *http.Client {
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: limit}
}

// get returns the status and the body of a response.
func get(t testing.TB, url string) (int, string) {
	t.Helper()
	res, err := client(t).Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}
