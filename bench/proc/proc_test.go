//go:build linux

package proc

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestParseAnnouncement(t *testing.T) {
	tests := []struct {
		line, addr string
		ok         bool
	}{
		{"listening on 127.0.0.1:8080", "127.0.0.1:8080", true},
		{"spindle echo: listening on 127.0.0.1:8080 (callback, 1 loop)", "127.0.0.1:8080", true},
		{"listening on [::1]:99.", "[::1]:99", true},
		{"listening on nothing", "", false},
		{"started", "", false},
	}
	for _, tt := range tests {
		if addr, ok := parseAnnouncement(tt.line); addr != tt.addr || ok != tt.ok {
			t.Errorf("%q: %q, %v", tt.line, addr, ok)
		}
	}
}

func TestParseRSS(t *testing.T) {
	rollup := "00400000-7ffc [rollup]\nRss:               12345 kB\nPss:                 678 kB\n"
	if got, err := parseRSS("x", []byte(rollup)); err != nil || got != 12345*1024 {
		t.Errorf("%d, %v", got, err)
	}
	if _, err := parseRSS("x", []byte("Pss: 1 kB\n")); err == nil {
		t.Error("no error without Rss")
	}
}

func TestCPUTimeAdvancesWithWork(t *testing.T) {
	before, err := CPUTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	for time.Since(start) < 20*time.Millisecond {
		// Use CPU time.
	}
	after, err := CPUTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if after <= before {
		t.Errorf("CPU time went from %v to %v", before, after)
	}
	if _, err := CPUTime(1 << 22); err == nil {
		t.Error("no error for a process that does not exist")
	}
}

func TestRSSOfThisProcess(t *testing.T) {
	if got, err := RSS(os.Getpid()); err != nil || got < 1<<20 {
		t.Errorf("%d, %v", got, err)
	}
}

func TestStartOnPinsTheChildOnly(t *testing.T) {
	before, err := Cores()
	if err != nil {
		t.Fatal(err)
	}
	core := before[len(before)-1]
	var out strings.Builder
	cmd := exec.Command("grep", "Cpus_allowed_list", "/proc/self/status")
	cmd.Stdout = &out
	if err := StartOn([]int{core}, cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, list, _ := strings.Cut(out.String(), ":"); strings.TrimSpace(list) != strconv.Itoa(core) {
		t.Errorf("the child may use cores %q, want %d", list, core)
	}
	if after, err := Cores(); err != nil || len(after) != len(before) {
		t.Errorf("the cores of this process changed from %v to %v, %v", before, after, err)
	}
	if err := StartOn([]int{1000}, exec.Command("true")); err == nil {
		t.Error("no error for a core that does not exist")
	}
}

func TestStartServerReportsAnEarlyExit(t *testing.T) {
	_, err := StartServer([]int{firstCore(t)}, []string{"sh", "-c", "echo no such flag >&2; exit 3"}, nil)
	if err == nil || !strings.Contains(err.Error(), "no such flag") || !strings.Contains(err.Error(), "3") {
		t.Errorf("error %v does not have the exit code and the message", err)
	}
}

func TestStartServerAndStop(t *testing.T) {
	s, err := StartServer([]int{firstCore(t)}, []string{"sh", "-c", "echo starting; echo listening on 127.0.0.1:$PORT; exec cat >/dev/null; read x"}, []string{"PORT=7"})
	if err != nil {
		t.Fatal(err)
	}
	if s.Addr != "127.0.0.1:7" {
		t.Errorf("address %q", s.Addr)
	}
	s.Stop()
	s.Stop()
	if s.Err() == nil {
		t.Error("a stopped server has no error")
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	var tl tail
	for range 1000 {
		tl.Write([]byte("0123456789"))
	}
	tl.Write([]byte("last words\n"))
	if got := tl.String(); len(got) > tailBytes || !strings.HasSuffix(got, "last words") {
		t.Errorf("%d bytes, ending in %q", len(got), got[len(got)-20:])
	}
}

func firstCore(t *testing.T) int {
	cores, err := Cores()
	if err != nil {
		t.Fatal(err)
	}
	return cores[0]
}
