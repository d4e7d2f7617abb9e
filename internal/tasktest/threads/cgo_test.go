package threads_test

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// cCases are the lines of the table that need C. The program in testdata/cgothreads
// implements them.
var cCases = map[string]string{
	"c-task-waits":              heldTask,
	"c-task-waits-locked":       heldTask,
	"c-task-recovers":           goesOn,
	"c-task-starts":             goesOn,
	"c-task-starts-eagerly":     heldTask,
	"c-task-opens-nursery":      heldTask,
	"c-task-exits":              exits,
	"c-callback-starts-eagerly": heldByFn,
	"c-steps":                   goesOn,
	"c-steps-then-go-steps":     stranded,
	"c-thread-steps":            goesOn,
	"c-another-thread-steps":    stranded,
}

// TestThreadLocksOfC: a callback from C is locked to its thread until it returns.
func TestThreadLocksOfC(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short: it builds a program with cgo")
	}
	mustSeeLocks(t)
	enabled, err := exec.Command("go", "env", "CGO_ENABLED", "CC").Output()
	if err != nil {
		t.Skip("skipped: there is no go command to build a program with:", err)
	}
	settings := bytes.Fields(enabled)
	if len(settings) != 2 || string(settings[0]) != "1" {
		t.Skip("skipped: cgo is not enabled")
	}
	if _, err := exec.LookPath(string(settings[1])); err != nil {
		t.Skip("skipped: there is no C compiler:", err)
	}
	program := filepath.Join(t.TempDir(), "cgothreads")
	if out, err := exec.Command("go", "build", "-o", program, "./testdata/cgothreads").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, want := range cCases {
		t.Run(name, func(t *testing.T) {
			child := exec.CommandContext(t.Context(), program, name)
			hung := time.AfterFunc(2*time.Minute, func() { child.Process.Kill() })
			defer hung.Stop()
			out, err := child.CombinedOutput()
			_, outcome, _ := bytes.Cut(out, []byte("outcome: "))
			if err != nil || !bytes.Contains(outcome, []byte(want)) {
				t.Errorf("%v, want %q:\n%s", err, want, out)
			}
		})
	}
}
