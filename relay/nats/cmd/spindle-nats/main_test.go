package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

func run(t *testing.T, args string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = execute(t.Context(), strings.Fields(args), &o, &e)
	return code, o.String(), e.String()
}

var serving = regexp.MustCompile(`^spindle relay demo: (http://\S+) on nats://127.0.0.1:\d+\n$`)

func TestDemoOnAnEmbeddedServer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	exit := make(chan int, 1)
	go func() {
		exit <- execute(ctx, []string{"demo", "--addr", "127.0.0.1:0", "--nats", "embedded"}, w, io.Discard)
		w.Close()
	}()
	lines := bufio.NewReader(r)
	line, err := lines.ReadString('\n')
	said := serving.FindStringSubmatch(line)
	if said == nil {
		t.Fatalf("the command prints %q, %v", line, err)
	}
	for path, want := range map[string]string{"/work?ms=1": "worked for 1ms", "/ready": "ready", "/state": `"Bus":"NATS, nats://127.0.0.1:`} {
		answer, err := http.Get(said[1] + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s: %q, %v", path, body, err)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	io.Copy(io.Discard, lines)
	if code := <-exit; code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestBench(t *testing.T) {
	code, out, errs := run(t, "bench --quick --json")
	var figures map[string]float64
	if err := json.Unmarshal([]byte(out), &figures); code != 0 || err != nil {
		t.Fatalf("%d, %s, %s, %v", code, out, errs, err)
	}
	for _, key := range []string{"call_ns", "go_channel_ns", "calls_per_s", "nats_ratio", "nats_many_ratio"} {
		if figures[key] <= 0 {
			t.Errorf("%s is %v", key, figures[key])
		}
	}
}

func TestErrors(t *testing.T) {
	for args, want := range map[string]string{
		"":                                "spindle-nats demo",
		"dance":                           `no command "dance"`,
		"demo now":                        `demo: got the argument "now", want none; see 'spindle-nats demo --help'`,
		"demo --port 1":                   "no flag --port; see 'spindle-nats demo --help'",
		"demo --adr :0":                   "no flag --adr (did you mean --addr?); see 'spindle-nats demo --help'",
		"demo --nats nats://127.0.0.1:1":  "relay/nats: connecting to nats://127.0.0.1:1: relay: the bus is not connected",
		"bench --nats nats://127.0.0.1:1": "nats: no servers available",
	} {
		if code, out, errs := run(t, args); code != 2 || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%s: %d, %q, %q", args, code, out, errs)
		}
	}
	for _, args := range []string{"help", "demo --help", "bench --help"} {
		if code, out, errs := run(t, args); code != 0 || out == "" || errs != "" {
			t.Errorf("%s: %d, %q, %q", args, code, out, errs)
		}
	}
}
