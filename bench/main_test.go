//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/bench/load"
	"github.com/spindleloop/spindle/bench/peers"
	"github.com/spindleloop/spindle/internal/report"
)

// TestMain lets the harness start the test binary as a server or a load generator.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "serve" || os.Args[1] == "load") {
		os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr))
	}
	// Without this, every process sleeps for a second at its end under -race.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	os.Exit(m.Run())
}

func TestUsageErrorsPrintOneLineAndExitWithCode2(t *testing.T) {
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"--no-such-flag"}, "no-such-flag"},
		{[]string{"ehco"}, `no benchmark "ehco"`},
		{[]string{"--servers", "gnat"}, `no server "gnat"`},
		{[]string{"--reference", "gnat"}, `no server "gnat"`},
		{[]string{"--rounds", "0"}, "--rounds"},
		{[]string{"--rounds", "many"}, "rounds"},
		{[]string{"--window", "1ms"}, "--window"},
		{[]string{"--size", "8"}, "--size"},
		{[]string{"--depth", "1000"}, "--depth"},
		{[]string{"--low", "10", "--high", "10"}, "--low"},
		{[]string{"--many", "5"}, "--many"},
		{[]string{"--high", "100000000"}, "open files"},
		{[]string{"--server-cpu", "5000"}, "no core 5000"},
		{[]string{"--spindle", "/no/such/file"}, "--spindle"},
		{[]string{"serve", "gnat"}, "serve needs one of"},
		{[]string{"load"}, "plan"},
		{[]string{"load", "{"}, "JSON"},
	}
	for _, tt := range tests {
		var stdout, stderr bytes.Buffer
		code := execute(tt.args, &stdout, &stderr)
		message := stderr.String()
		if code != 2 || !strings.Contains(message, tt.want) || strings.Count(message, "\n") != 1 || stdout.Len() > 0 {
			t.Errorf("%v: exit code %d, stderr %q, stdout %q", tt.args, code, message, stdout.String())
		}
	}
}

func TestHelpNamesEveryBenchmarkAndServer(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := execute([]string{"--help"}, &stdout, &stderr); code != 0 || stderr.Len() > 0 {
		t.Fatalf("exit code %d, stderr %q", code, stderr.String())
	}
	for _, word := range append(benchmarkNames(), variantNames()...) {
		if !strings.Contains(stdout.String(), word) {
			t.Errorf("--help does not mention %s", word)
		}
	}
}

func TestTheNoteHasTheSizeOfMessages(t *testing.T) {
	o := options{size: 64}
	for want, plan := range map[int]load.Plan{64: {}, 1024: {SizeBytes: 1024}, 13: {Body: "Hello, World!"}} {
		if got := o.messageBytes(plan); got != want {
			t.Errorf("%d bytes of %+v; want %d", got, plan, want)
		}
	}
}

func TestGivenFlagsOverrideSmoke(t *testing.T) {
	o, err := parseOptions([]string{"--rounds", "3", "--smoke", "echo"})
	if err != nil {
		t.Fatal(err)
	}
	if o.rounds != 3 || o.conns != 20 || o.high != 500 || !slices.Equal(o.benchmarks, []string{"echo"}) {
		t.Errorf("%+v", o)
	}
}

func TestEveryGoPeerHasARow(t *testing.T) {
	names := variantNames()
	for _, name := range peers.Names() {
		if !slices.Contains(names, name) {
			t.Errorf("%s has no row", name)
		}
	}
	slices.Sort(names)
	if len(slices.Compact(names)) != len(variants) {
		t.Error("two rows have the same name")
	}
}

func TestParseFigures(t *testing.T) {
	good := `{"callbacks_per_s": 1.5e7, "turns_per_s": 2000000, "idle_cpu_ms": 0}`
	figures, err := parseFigures([]byte(good))
	if err != nil || figures["callbacks_per_s"] != 1.5e7 || figures["turns_per_s"] != 2e6 {
		t.Errorf("%v, %v", figures, err)
	}
	for _, bad := range []string{"", "{}", "null", "not yet", `{"a": {"b": 1}}`, `{"a": "fast"}`, `[1]`} {
		if figures, err := parseFigures([]byte(bad)); err == nil {
			t.Errorf("parseFigures(%q) returned %v and no error", bad, figures)
		}
	}
}

func TestIdleMark(t *testing.T) {
	for _, tt := range []struct {
		server, load float64
		want         string
	}{
		{0.99, 0.99, ""},
		{0.60, 0.99, "the load generator was the limit"},
		{0.60, 0.50, "it waited for itself"},
	} {
		if got := idleMark(tt.server, tt.load); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%v, %v: %q", tt.server, tt.load, got)
		}
	}
}

// window is long enough for every server to answer on a busy machine: shorter ones have
// passed without an answer.
const window = "300ms"

// bench performs a smoke run and returns its results.
func bench(t *testing.T, wantCode int, args ...string) (sections []report.Section, table, progress string) {
	t.Helper()
	out := t.TempDir()
	var stdout, stderr bytes.Buffer
	if code := execute(append([]string{"--smoke", "--out", out}, args...), &stdout, &stderr); code != wantCode {
		t.Fatalf("exit code %d\n%s", code, stderr.String())
	}
	raw, err := os.ReadFile(filepath.Join(out, "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &sections); err != nil {
		t.Fatal(err)
	}
	if md, err := os.ReadFile(filepath.Join(out, "results.md")); err != nil || string(md) != stdout.String() {
		t.Errorf("results.md differs from the output (%v)", err)
	}
	if svg, err := os.ReadFile(filepath.Join(out, "results.svg")); err != nil || !bytes.HasPrefix(svg, []byte("<svg")) {
		t.Errorf("results.svg is not an SVG file (%v)", err)
	}
	return sections, stdout.String(), stderr.String()
}

func TestGoPeersEndToEnd(t *testing.T) {
	echo := goPeers(inEcho)
	sections, table, _ := bench(t, 0, "--rounds", "2", "--window", window, "--servers", strings.Join(echo, ","),
		"--reference", "gnet", "echo", "pipeline", "memory", "idle10k")
	if len(sections) != 4 || strings.Count(table, "gnet ÷ it") != 3 {
		t.Fatalf("%d sections:\n%s", len(sections), table)
	}
	for _, s := range sections {
		if len(s.Rows) != len(echo) {
			t.Errorf("%s: %d rows", s.Name, len(s.Rows))
		}
		for _, r := range s.Rows {
			for i, f := range r.Figures {
				if len(f) != 2 {
					t.Errorf("%s: %s: %d figures in column %d", s.Name, r.Name, len(f), i)
				}
			}
		}
	}
}

// goPeers returns the servers linked into this binary that speak a protocol.
func goPeers(protocol string) (names []string) {
	for _, v := range variants {
		if slices.Contains(v.speaks, protocol) && slices.Contains(peers.Names(), v.name) {
			names = append(names, v.name)
		}
	}
	return names
}

func TestWebServersEndToEnd(t *testing.T) {
	sections, table, _ := bench(t, 0, "--rounds", "1", "--window", window, "--web-conns", "8", "--low", "20", "--high", "60",
		"--servers", strings.Join(goPeers(inHTTP), ","), "http", "http-pipeline", "memory-http")
	if len(sections) != 3 || strings.Count(table, "spindle-lean ÷ it") != 3 {
		t.Fatalf("%d sections:\n%s", len(sections), table)
	}
	for _, s := range sections {
		if len(s.Rows) != 5 {
			t.Errorf("%s: %d rows", s.Name, len(s.Rows))
		}
	}
}

// TestEncryptedAndMultiplexedConnectionsHaveMemory measures idle connections of clients that need the standard library.
func TestEncryptedAndMultiplexedConnectionsHaveMemory(t *testing.T) {
	sections, table, _ := bench(t, 0, "--rounds", "1", "--low", "9", "--high", "60", "--servers", "gonet,nethttp,spindle-lean,spindle-inline",
		"memory-tls", "memory-https", "memory-http2", "memory-http2-tls")
	for i, rows := range []int{1, 3, 3, 3} {
		if len(sections) != 4 || len(sections[i].Rows) != rows {
			t.Fatalf("want rows %d in section %d:\n%s", rows, i, table)
		}
	}
}

func TestHTTP2EndToEnd(t *testing.T) {
	if _, err := exec.LookPath("h2load"); err != nil {
		t.Skip("no h2load; apt-get install nghttp2-client")
	}
	sections, table, _ := bench(t, 0, "--servers", "nethttp,spindle-lean", "http2")
	if len(sections) != len(muxedLoads)-1 || strings.Count(table, "spindle-lean ÷ it") != len(sections) {
		t.Errorf("%d sections:\n%s", len(sections), table)
	}
}

func TestAttacksEndToEnd(t *testing.T) {
	sections, table, _ := bench(t, 0, "--servers", "spindle-inline", "attacks")
	if len(sections) != 1 || len(sections[0].Rows) != 3 || sections[0].Rows[0].Name != "nothing" {
		t.Errorf("%s", table)
	}
}

func TestManyConnectionsEndToEnd(t *testing.T) {
	sections, table, _ := bench(t, 0, "--servers", "gonet", "many")
	if len(sections) != 1 || len(sections[0].Rows) != 1 || !strings.Contains(table, "## 600 connections") {
		t.Errorf("%s", table)
	}
}

func TestWebSocketServersEndToEnd(t *testing.T) {
	sections, table, _ := bench(t, 0, "--rounds", "1", "--window", window, "--conns", "8", "--low", "20", "--high", "60",
		"--servers", strings.Join(append(goPeers(inWebSocket), "nbio-ws"), ","), "ws", "memory-ws")
	if len(sections) != 2 || strings.Count(table, "spindle-socket ÷ it") != 2 {
		t.Fatalf("%d sections:\n%s", len(sections), table)
	}
	for _, s := range sections {
		if len(s.Rows) != 4 {
			t.Errorf("%s: %d rows", s.Name, len(s.Rows))
		}
	}
}

// stub returns the path of a spindle command that prints the given figures. Its echo
// server does not start.
func stub(t *testing.T, figures string) string {
	path := filepath.Join(t.TempDir(), "spindle")
	script := "#!/bin/sh\n[ \"$1\" = bench ] || { echo no such command >&2; exit 2; }\necho '" + figures + "'\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestProgramsEndToEnd(t *testing.T) {
	spindle := stub(t, `{"callbacks_per_s": 9e7, "turns_per_s": 2e6, "timer_cancel_per_s": 1.5e7,
		"timer_fire_per_s": 5e6, "go_timer_cancel_per_s": 3e6, "go_timer_fire_per_s": 5e5, "idle_cpu_ms": 0.1}`)
	sections, table, _ := bench(t, 0, "--spindle", spindle, "--servers", "spindle-protocol", "callbacks", "timers")
	var titles []string
	for _, s := range sections {
		titles = append(titles, s.Title)
	}
	want := []string{"Callbacks", "Turns", "Timers added and cancelled", "Timers added and fired"}
	if !slices.Equal(titles, want) {
		t.Errorf("sections %q, want %q", titles, want)
	}
	if !strings.Contains(table, "| go AfterFunc | ") || !strings.Contains(table, "5.00 | 5.00–5.00") {
		t.Errorf("no ratio to AfterFunc:\n%s", table)
	}
}

// A broken server is reported as a failure. The figures of the others are reported too.
func TestBrokenServerIsAnError(t *testing.T) {
	sections, _, progress := bench(t, 1, "--spindle", stub(t, "{}"), "--servers", "spindle-protocol,gonet", "echo")
	if len(sections) != 1 || len(sections[0].Rows) != 1 || sections[0].Rows[0].Name != "gonet" {
		t.Errorf("%+v", sections)
	}
	if !strings.Contains(progress, "FAILED echo: spindle-protocol") || !strings.Contains(progress, "no such command") {
		t.Errorf("progress %q does not report the failure", progress)
	}
}
