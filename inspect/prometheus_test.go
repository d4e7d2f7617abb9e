package inspect_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/inspect"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/web"
)

// TestDashboardShowsDataInPrometheus lets a Prometheus collect the metrics of a program, and
// asks it for each expression of docs/grafana.json, as Grafana does. It needs the program
// prometheus, of Debian's package of that name.
func TestDashboardShowsDataInPrometheus(t *testing.T) {
	path, err := exec.LookPath("prometheus")
	switch {
	case err != nil:
		t.Skip("prometheus is not installed")
	case !short.Full():
		t.Skip("without SPINDLE_TEST_FULL=1: another program, which measures for seconds")
	}
	late := web.Inline(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_ = spindle.Sleep(r.Context(), time.Millisecond) // a timer, for the lag
	}))
	serving(t, "dashboard", late, func(addr string) {
		s, err := inspect.Serve("127.0.0.1:0", inspect.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		prometheus, stop := startPrometheus(t, path, s.Addr().String())
		defer stop()
		client := &http.Client{Transport: &http.Transport{}}
		defer client.CloseIdleConnections()
		for _, p := range readDashboard(t).Panels {
			for _, target := range p.Targets {
				shown := false
				until.Tried(func() bool {
					fetch(client, "http://"+addr) // so that rates are not zero
					shown = hasData(client, prometheus, withVariables(target.Expr))
					return shown
				})
				if !shown {
					t.Errorf("panel %q shows nothing: %s", p.Title, target.Expr)
				}
			}
		}
	})
}

var listeningOn = regexp.MustCompile(`Listening on.* address=(\S+)`)

// startPrometheus starts a Prometheus that collects the metrics of a program. It returns the
// address of Prometheus.
func startPrometheus(t *testing.T, path, program string) (addr string, stop func()) {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: 200ms}\nscrape_configs: [{job_name: spindle, static_configs: [{targets: [%q]}]}]\n", program)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, path, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address=127.0.0.1:0")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	for lines := bufio.NewScanner(stderr); addr == "" && lines.Scan(); {
		log.WriteString(lines.Text() + "\n")
		if m := listeningOn.FindStringSubmatch(lines.Text()); m != nil {
			addr = m[1]
		}
	}
	drained := make(chan struct{})
	go func() { _, _ = io.Copy(io.Discard, stderr); close(drained) }()
	stop = func() {
		cancel()
		<-drained
		_ = cmd.Wait()
	}
	if addr == "" {
		stop()
		t.Fatalf("prometheus does not listen:\n%s", &log)
	}
	return addr, stop
}

// fetch returns the body of an answer, or nil.
func fetch(client *http.Client, url string) []byte {
	res, err := client.Get(url)
	if err != nil {
		return nil
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	return body
}

// hasData reports whether an expression has a value that is a number.
func hasData(client *http.Client, prometheus, expr string) bool {
	var a struct {
		Data struct{ Result []struct{ Value [2]any } }
	}
	body := fetch(client, "http://"+prometheus+"/api/v1/query?query="+url.QueryEscape(expr))
	if json.Unmarshal(body, &a) != nil {
		return false
	}
	for _, r := range a.Data.Result {
		if r.Value[1] != "NaN" {
			return true
		}
	}
	return false
}
