package coro_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestStricterPullFallsBack: direct switching calls the yield of one coroutine from another.
// With an iter.Pull that refuses that, tasks are slower but work.
func TestStricterPullFallsBack(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles much of the standard library")
	}
	refusals := map[string]string{
		"panics":          `panic("iter.Pull: yield called from another goroutine")`,
		"returns at once": `return false`,
	}
	for name, refusal := range refusals {
		t.Run(name, func(t *testing.T) {
			run := exec.Command("go", "run", "-overlay", strictPull(t, refusal), "./testdata/circle")
			var errs strings.Builder // on a busy machine the watchdog has something to say
			run.Stderr = &errs
			out, err := run.Output()
			if want := "rounds 300 <nil>\nexited true\n"; err != nil || string(out) != want {
				t.Errorf("%v, printed:\n%s\nwant:\n%s\n%s", err, out, want, errs.String())
			}
		})
	}
}

// strictPull writes an overlay for the go command: in its package iter, only
// the goroutine of a Pull may call its yield.
func strictPull(t *testing.T, refusal string) (overlay string) {
	t.Helper()
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	original := filepath.Join(strings.TrimSpace(string(goroot)), "src", "iter", "iter.go")
	text, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	strict := replaceOnce(t, string(text), "\t\tyield := func(v1 V) bool {\n", `
		own := goroutine()
		yield := func(v1 V) bool {
			if goroutine() != own {
				`+refusal+`
			}
`)
	strict += `
func goroutine() string {
	var buf [32]byte
	runtime.Stack(buf[:], false)
	for i := len("goroutine "); i < len(buf); i++ {
		if buf[i] == ' ' {
			return string(buf[:i])
		}
	}
	return string(buf[:])
}
`
	dir := t.TempDir()
	replacement := filepath.Join(dir, "iter.go")
	if err := os.WriteFile(replacement, []byte(strict), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := json.Marshal(map[string]any{"Replace": map[string]string{original: replacement}})
	if err != nil {
		t.Fatal(err)
	}
	overlay = filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, files, 0o600); err != nil {
		t.Fatal(err)
	}
	return overlay
}

func replaceOnce(t *testing.T, text, old, with string) string {
	t.Helper()
	if strings.Count(text, old) != 1 {
		t.Fatalf("%q is not once in the source of this Go", old)
	}
	return strings.Replace(text, old, with, 1)
}
