package inspect_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/inspect"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/stream"
	"github.com/spindleloop/spindle/web"
)

// metricLine is a sample in the text format.
var metricLine = regexp.MustCompile(`^([a-z_]+)(\{([a-z]+="(\\.|[^"\\])*",?)*\})? [0-9.e+-]+$`)

func TestMetricsAreInTheTextFormat(t *testing.T) {
	inspect.ShortPauses(t)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/missing" {
			http.NotFound(w, r)
		}
	})
	serving(t, "metrics \"quoted\" \\ \n", h, func(addr string) {
		metrics := func() string {
			status, body := request(inspect.Options{}, "GET", "/metrics", nil)
			if status != 200 {
				t.Fatalf("%d %s", status, body)
			}
			return string(body)
		}
		metrics() // turns counting on, which takes effect a little later
		name := `name="metrics \"quoted\" \\ \n"`
		counted := func(text, class string) bool {
			for line := range strings.Lines(text) {
				if strings.HasPrefix(line, "spindle_http_requests_total{") && strings.Contains(line, name) &&
					strings.Contains(line, `class="`+class+`"`) && !strings.HasSuffix(line, " 0\n") {
					return true
				}
			}
			return false
		}
		client := &http.Client{Transport: &http.Transport{}}
		defer client.CloseIdleConnections()
		text := ""
		for !counted(text, "2xx") || !counted(text, "4xx") {
			for _, path := range []string{"/", "/missing"} {
				res, err := client.Get("http://" + addr + path)
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
			}
			text = metrics()
		}
		seen := map[string]bool{}
		for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
			line := lines.Text()
			if strings.HasPrefix(line, "# ") {
				continue
			}
			if !metricLine.MatchString(line) {
				t.Errorf("not a sample: %s", line)
			}
			series, _, _ := strings.Cut(line, "} ")
			if seen[series] {
				t.Errorf("twice: %s", line)
			}
			seen[series] = true
		}
		for _, want := range []string{
			"spindle_loop_turns_total", "spindle_loop_lag_seconds_bucket", "spindle_tasks", "spindle_connections",
			"spindle_bytes_total", "spindle_http_request_duration_seconds_count", "spindle_workers_queued", "spindle_websockets",
		} {
			if !strings.Contains(text, want+"{") {
				t.Errorf("no %s", want)
			}
		}
		checkWithPromtool(t, text)
	})
}

// TestMetricsCountRequestsOfHTTP2: requests on streams are counted once each, wherever their handler runs.
func TestMetricsCountRequestsOfHTTP2(t *testing.T) {
	inspect.ShortPauses(t)
	answer := func(status int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status) })
	}
	mux := http.NewServeMux()
	mux.Handle("/goroutine", answer(http.StatusFound))
	mux.Handle("/warm", answer(http.StatusInternalServerError))
	mux.Handle("/inline", web.Inline(answer(http.StatusNotFound)))
	s := &web.Server{Handler: mux, Lean: func(c *web.LeanCtx) bool { return string(c.Path()) == "/lean" }, Protocols: new(http.Protocols)}
	s.Protocols.SetUnencryptedHTTP2(true)
	run(t, "streams counted", func(ctx context.Context, outside func(func())) error {
		sv, err := s.Listen(spindle.LoopOf(ctx), "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer sv.Close()
		outside(func() {
			tr := &http.Transport{Protocols: s.Protocols}
			defer tr.CloseIdleConnections()
			use := func(path string) {
				res, err := tr.RoundTrip(httptest.NewRequest("GET", "http://"+sv.Addr().String()+path, nil))
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
			}
			counted := func(class string) (n int) {
				_, text := request(inspect.Options{}, "GET", "/metrics", nil)
				for line := range strings.Lines(string(text)) {
					if strings.HasPrefix(line, "spindle_http_requests_total{") && strings.Contains(line, `name="streams counted"`) &&
						strings.Contains(line, `class="`+class+`"`) {
						fmt.Sscan(line[strings.LastIndexByte(line, ' '):], &n)
					}
				}
				return n
			}
			until.Tried(func() bool { // reading turns counting on, which takes effect a little later
				use("/warm")
				return counted("5xx") > 0
			})
			want := map[string]string{"2xx": "/lean", "3xx": "/goroutine", "4xx": "/inline"}
			for class, path := range want {
				use(path)
				use(path)
				until.Tried(func() bool { return counted(class) >= 2 })
			}
			for class, path := range want {
				if n := counted(class); n != 2 {
					t.Errorf("%d of 2 requests for %s are counted", n, path)
				}
			}
		})
		return nil
	})
}

// TestBytesOfDatagramsAreCounted: spindle_bytes_total has the bytes of datagrams, too.
func TestBytesOfDatagramsAreCounted(t *testing.T) {
	run(t, "datagrams", func(ctx context.Context, outside func(func())) error {
		c, err := stream.ListenPacket(ctx, "udp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer c.Close()
		if _, err := c.WriteTo(make([]byte, 1000), c.LocalAddr()); err != nil {
			return err
		}
		if n, err := c.Read(make([]byte, 600)); n != 600 || err != nil {
			t.Errorf("read %d, %v", n, err)
		}
		outside(func() {
			_, text := request(inspect.Options{}, "GET", "/metrics", nil)
			for _, want := range []string{`name="datagrams",direction="in"} 600`, `name="datagrams",direction="out"} 1000`} {
				if !bytes.Contains(text, []byte(want+"\n")) {
					t.Errorf("no sample %s", want)
				}
			}
		})
		return nil
	})
}

// checkWithPromtool checks metrics with promtool, if it is installed.
func checkWithPromtool(t *testing.T, text string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Log("promtool is not installed")
		return
	}
	cmd := exec.Command(path, "check", "metrics")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil || len(bytes.TrimSpace(out)) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

func TestVarIsJSON(t *testing.T) {
	if text := fmt.Sprint(inspect.Var()); !strings.HasPrefix(text, "[") || !strings.HasSuffix(text, "]") {
		t.Errorf("the variable is %s", text)
	}
}
