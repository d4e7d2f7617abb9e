package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/internal/short"
)

var serving = regexp.MustCompile(`^spindle serve: (https?://\S+), inspector (http://127\.0\.0\.1:\d+/)\n$`)

// startServe runs the command until end is called, which returns its standard error.
func startServe(t *testing.T, args ...string) (url string, end func() (errs string)) {
	t.Helper()
	url, _, end = startInspected(t, args...)
	return url, end
}

// startInspected is startServe that also returns the address of the inspector.
func startInspected(t *testing.T, args ...string) (url, inspector string, end func() (errs string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	r, w := io.Pipe()
	var errs bytes.Buffer
	exit := make(chan int, 1)
	go func() {
		code := execute(ctx, append([]string{"serve", "--addr", "127.0.0.1:0"}, args...), w, &errs)
		w.Close()
		exit <- code
	}()
	lines := bufio.NewReader(r)
	line, err := lines.ReadString('\n')
	said := serving.FindStringSubmatch(line)
	if said == nil {
		t.Fatalf("the command prints %q, %v, and on stderr %q", line, err, errs.String())
	}
	return said[1], said[2], func() string {
		cancel()
		rest, _ := io.ReadAll(lines)
		if code := <-exit; code != 0 {
			t.Errorf("exit code %d", code)
		}
		if want := "spindle serve: draining for at most 10s; interrupt again to stop at once\n"; string(rest) != want {
			t.Errorf("interrupted, it prints %q, want %q", rest, want)
		}
		return errs.String()
	}
}

// get fetches a URL with a client that does not keep its connection.
func get(t *testing.T, url string, config *tls.Config) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestServe(t *testing.T) {
	url, end := startServe(t, "--loops", "2", "--log")
	if got := get(t, url+"/plaintext-goroutine", nil); got != "Hello, World!" {
		t.Errorf("answered %q", got)
	}
	if errs := end(); strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "/plaintext-goroutine") {
		t.Errorf("with --log it prints %q; want a line for the request", errs)
	}
}

func TestServeDirectoryByTLS(t *testing.T) {
	dir := t.TempDir()
	config, err := certificate("", "")
	if err != nil {
		t.Fatal(err)
	}
	cert := config.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	certFile, keyFile := write("cert.pem", "CERTIFICATE", cert.Certificate[0]), write("key.pem", "PRIVATE KEY", key)
	url, end := startServe(t, "--tls-cert", certFile, "--tls-key", keyFile, dir)
	if !strings.HasPrefix(url, "https://") {
		t.Errorf("it prints %s", url)
	}
	if got := get(t, url+"/cert.pem", &tls.Config{InsecureSkipVerify: true}); !strings.HasPrefix(got, "-----BEGIN CERTIFICATE") {
		t.Errorf("answered %q", got)
	}
	if errs := end(); errs != "" {
		t.Errorf("it prints %q", errs)
	}
}

// TestServeDrains checks that a request under way is answered after the interrupt.
func TestServeDrains(t *testing.T) {
	url, end := startServe(t)
	answer, begun := make(chan string), make(chan struct{})
	body, pour := io.Pipe()
	go func() {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Post(url+"/echo", "text/plain", body)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer resp.Body.Close()
		io.ReadFull(resp.Body, make([]byte, 1)) // it has begun to come back
		close(begun)
		rest, err := io.ReadAll(resp.Body)
		if err != nil {
			rest = []byte(err.Error())
		}
		answer <- string(rest[max(0, len(rest)-len("second")):])
	}()
	pour.Write(make([]byte, 256<<10))
	<-begun
	errs := make(chan string)
	go func() { errs <- end() }()
	for { // until no new connection is accepted
		resp, err := http.Get(url + "/plaintext")
		if err != nil {
			break
		}
		resp.Body.Close()
		http.DefaultClient.CloseIdleConnections()
	}
	pour.Write([]byte("second"))
	pour.Close()
	if got := <-answer; got != "second" {
		t.Errorf("the answer ends with %q", got)
	}
	if got := <-errs; got != "" {
		t.Errorf("it prints %q", got)
	}
}

// TestServePrintsItsInspector asks the inspector at the address that is printed, and lets
// 'spindle top' find it.
func TestServePrintsItsInspector(t *testing.T) {
	url, inspector, end := startInspected(t)
	if got := get(t, inspector+"api/v1/loops", nil); !strings.Contains(got, `"name":"web"`) || strings.Contains(got, `"inspector":"`) {
		t.Errorf("the inspector answers %s", got)
	}
	if got, want := get(t, url+"/debug/spindle/api/v1/loops", nil), `"inspector":"`+strings.Trim(inspector, "htp:/")+`"`; !strings.Contains(got, want) {
		t.Errorf("the server answers %s, without %s", got, want)
	}
	end()
}

// TestServeShowsItsBlockedLoop blocks the only loop of the server. The inspector that
// /debug/spindle/ leads to says where, while it is blocked.
func TestServeShowsItsBlockedLoop(t *testing.T) {
	if !short.Full() {
		t.Skip("without SPINDLE_TEST_FULL=1: it blocks a loop for seconds")
	}
	url, end := startServe(t)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	page, err := client.Get(url + "/debug/spindle/")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(page.Body)
	page.Body.Close()
	if err != nil || page.StatusCode != http.StatusOK || !strings.Contains(string(body), "<title>Spindle") {
		t.Fatalf("%v, %s: %.100s", err, page.Status, body)
	}
	inspector := strings.TrimSuffix(page.Request.URL.String(), "/")
	if strings.HasPrefix(inspector, url) {
		t.Fatal("the page is served by the loop that it shows")
	}
	if got := get(t, url+"/debug/spindle/api/v1/loops", nil); !strings.Contains(got, `"loops":[`) {
		t.Errorf("the API answers %q", got)
	}
	answered := make(chan string)
	go func() { answered <- get(t, url+"/block?ms=5000", nil) }()
	for !strings.Contains(get(t, inspector+"/api/v1/loops", nil), "demo.block(") {
		select {
		case got := <-answered:
			t.Fatalf("the loop was blocked for five seconds, which answered %q, and the inspector did not show it", got)
		default:
		}
	}
	<-answered
	end()
}
