package guide_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestTheService runs the program of the page "Build a service": an order is accepted,
// shipped and reported, the tree names the workers, and a signal ends it in order.
func TestTheService(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short: compiles a program")
	}
	all := slices.DeleteFunc(programs(t), func(p program) bool { return p.Name != "service" })
	if len(all) != 1 {
		t.Fatalf("found %d programs on the page", len(all))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	service := exec.CommandContext(ctx, filepath.Join(build(t, all), "service"), "-addr", "127.0.0.1:0")
	var errs bytes.Buffer
	service.Stderr = &errs
	stdout, err := service.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { service.Process.Kill() })
	out := bufio.NewReader(stdout)
	url := "http://" + strings.TrimPrefix(line(t, out), "listening on ")

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	request := func(method, path, body string) *http.Response {
		req, err := http.NewRequestWithContext(ctx, method, url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
		return res
	}
	stream := bufio.NewReader(request("GET", "/events", "").Body)
	accepted := request("POST", "/orders", "tea")
	if text, err := io.ReadAll(accepted.Body); accepted.StatusCode != http.StatusAccepted || string(text) != "order 1\n" {
		t.Errorf("the order is answered with %s, %q, %v", accepted.Status, text, err)
	}
	if got, want := line(t, stream), "data: order 1: tea is on its way"; got != want {
		t.Errorf("the event is %q; want %q", got, want)
	}
	tree, err := io.ReadAll(request("GET", "/debug/tasks", "").Body)
	if got, want := shapeOfTree(string(tree)), shapeOfTree(shownTree(t)); got != want || err != nil {
		t.Errorf("%v; the tree is\n%swant\n%s", err, got, want)
	}

	service.Process.Signal(syscall.SIGTERM)
	if got, want := line(t, out), "shutting down: terminated"; got != want {
		t.Errorf("it says %q; want %q", got, want)
	}
	if rest, err := io.ReadAll(stream); err != nil || strings.TrimSpace(string(rest)) != "" {
		t.Errorf("the stream ends with %q, %v", rest, err)
	}
	if err := service.Wait(); err != nil {
		t.Errorf("%v\n%s", err, errs.Bytes())
	}
	t.Logf("%s", tree)
}

// shownTree returns the tree on the page.
func shownTree(t *testing.T) string {
	for _, b := range blocks(t) {
		if b.Page == "service.md" && b.Kind == "tree" {
			return b.Text
		}
	}
	t.Fatal("the page shows no tree")
	return ""
}

// shapeOfTree returns a tree of tasks without times and places in files, which differ.
func shapeOfTree(tree string) string {
	tree = regexp.MustCompile(` at \S+ \(.*\)`).ReplaceAllString(tree, "")
	return regexp.MustCompile(` \([^)]*\)`).ReplaceAllString(tree, "")
}

func line(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	text, err := r.ReadString('\n')
	if err != nil {
		t.Fatalf("read %q: %v", text, err)
	}
	return strings.TrimSuffix(text, "\n")
}
