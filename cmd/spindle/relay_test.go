package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var relaying = regexp.MustCompile(`^spindle relay demo: (http://\S+)\n$`)

func TestRelayDemo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	exit := make(chan int, 1)
	go func() {
		exit <- execute(ctx, []string{"relay", "demo", "--addr", "127.0.0.1:0"}, w, io.Discard)
		w.Close()
	}()
	lines := bufio.NewReader(r)
	line, err := lines.ReadString('\n')
	said := relaying.FindStringSubmatch(line)
	if said == nil {
		t.Fatalf("the command prints %q, %v", line, err)
	}
	if got := get(t, said[1]+"/work?ms=1", nil); !strings.Contains(got, "worked for 1ms") {
		t.Errorf("got %q", got)
	}
	cancel()
	io.Copy(io.Discard, lines)
	if code := <-exit; code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestRelayBench(t *testing.T) {
	got := run(t.Context(), "relay", "bench", "--quick", "--json")
	var figures map[string]float64
	if err := json.Unmarshal([]byte(got.out), &figures); got.code != 0 || err != nil {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, key := range []string{"call_ns", "go_channel_ns", "call_channel_ratio", "calls_per_s", "health_idle_p99_ns", "health_saturated_p99_ns", "health_p99_ratio"} {
		if figures[key] <= 0 {
			t.Errorf("%s is %v", key, figures[key])
		}
	}
	if got := run(t.Context(), "relay", "bench", "--quick"); got.code != 0 || !strings.Contains(got.out, "## A call from a task to a goroutine and back") {
		t.Errorf("%+v", got)
	}
}

func TestRelayHelp(t *testing.T) {
	for args, want := range map[string]string{
		"relay --help":       "spindle relay demo",
		"relay demo --help":  "kill a worker",
		"relay bench --help": "go_channel_ns",
		"help relay":         "spindle relay bench",
	} {
		if got := run(t.Context(), strings.Fields(args)...); got.code != 0 || got.errs != "" || !strings.Contains(got.out, want) {
			t.Errorf("%s: %+v", args, got)
		}
	}
}

func TestRelayErrors(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("GOBIN", t.TempDir())
	for args, want := range map[string]string{
		"relay":                             "want demo or bench",
		"relay dance":                       `no "dance"; want demo or bench`,
		"relay --addr :0 demo":              "the flag --addr must follow demo or bench; see 'spindle relay --help'",
		"relay demo here":                   `got the argument "here"`,
		"relay bench now":                   `got the argument "now"`,
		"relay demo --addr nowhere":         "nowhere",
		"relay demo --port 1":               "no flag --port; see 'spindle relay demo --help'",
		"relay demo --adr 1":                "no flag --adr (did you mean --addr?); see 'spindle relay demo --help'",
		"relay demo --nats embedded":        "go install ./cmd/spindle-nats",
		"relay bench --nats nats://x":       "go install ./cmd/spindle-nats",
		"relay demo --addr 256.0.0.1:99999": "256.0.0.1:99999",
	} {
		got := run(t.Context(), strings.Fields(args)...)
		if got.code != 2 || got.out != "" || !strings.Contains(got.errs, want) || strings.Count(got.errs, "\n") != 1 {
			t.Errorf("%s: %+v, want %q", args, got, want)
		}
	}
}

// TestRelayRunsTheCommandOfNATS: with --nats the command spindle-nats gets the flags.
func TestRelayRunsTheCommandOfNATS(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, natsCommand), []byte("#!/bin/sh\necho \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, variable := range []string{"PATH", "GOBIN"} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv("PATH", t.TempDir())
			t.Setenv(variable, dir)
			for args, want := range map[string]string{
				"relay demo --addr 127.0.0.1:0 --nats embedded":   "demo --addr 127.0.0.1:0 --nats embedded\n",
				"relay bench --json --nats nats://127.0.0.1:4222": "bench --json=true --quick=false --nats nats://127.0.0.1:4222\n",
			} {
				if got := run(t.Context(), strings.Fields(args)...); got.code != 0 || got.out != want {
					t.Errorf("%s: %+v, want %q", args, got, want)
				}
			}
		})
	}
}

// TestRelayIsInterruptedWithTheCommandOfNATS: a command that the signal ends is no failure.
func TestRelayIsInterruptedWithTheCommandOfNATS(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, natsCommand), []byte("#!/bin/sh\necho started\nexec /bin/sleep 1000\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	go func() {
		bufio.NewReader(r).ReadString('\n') // it has started
		cancel()
		io.Copy(io.Discard, r)
	}()
	defer w.Close()
	var errs strings.Builder
	if code := execute(ctx, []string{"relay", "demo", "--addr", "127.0.0.1:0", "--nats", "embedded"}, w, &errs); code != 0 {
		t.Errorf("exit code %d, %s", code, errs.String())
	}
}
