package pyapp_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/pyapp"
)

// needsInterpreters skips a test if Python's asyncio cannot be used in subinterpreters.
func needsInterpreters(t *testing.T) {
	t.Helper()
	if exec.Command(python(t), "-c", "import sys; sys.exit(sys.version_info < (3, 13))").Run() != nil {
		t.Skip("this Python has no loops in subinterpreters")
	}
}

// TestInterpreters has a process with two interpreters: while one is blocked the other answers, and functions are
// those of the first one.
func TestInterpreters(t *testing.T) {
	needsInterpreters(t)
	app := prepare(t, &pyapp.App{Target: "interpreted:app", Interpreters: 2})
	url, dir := serve(t, app), t.TempDir()
	blocked := make(chan string)
	go func() {
		_, text := get(t, url+"/block?"+dir)
		blocked <- text
	}()
	until.Holds(t, func() bool {
		_, err := os.Stat(filepath.Join(dir, "blocked"))
		return err == nil
	})
	_, other := get(t, url)
	if err := os.WriteFile(filepath.Join(dir, "released"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	first, second := strings.Fields(<-blocked), strings.Fields(other)
	if len(first) != 3 || len(second) != 3 || first[0] == second[0] || !reflect.DeepEqual(first[1:], second[1:]) || first[1] != "127.0.0.1" {
		t.Errorf("%q and %q are not two interpreters of a process", first, second)
	}
	got, err := pyapp.Call[pyapp.Set[int]](t.Context(), app, "interpreted:where", pyapp.Set[int]{7: {}})
	if want := (pyapp.Set[int]{0: {}, 7: {}}); err != nil || !reflect.DeepEqual(got, want) {
		t.Error(got, err)
	}
}

func TestInterpretersAreRefused(t *testing.T) {
	needsInterpreters(t)
	for target, text := range map[string]string{"refuses:app": "cbor2", "interpreted:wsgi": "WSGI", "": "name the app"} {
		app := prepare(t, &pyapp.App{Target: target, Interpreters: 2})
		err := app.Start(t.Context())
		if !errors.Is(err, pyapp.ErrInterpreters) || !strings.Contains(err.Error(), text) || target != "" && !strings.Contains(err.Error(), "App.Workers") {
			t.Errorf("%q: %v", target, err)
		}
	}
}

// TestAnInterpreterThatFails has a reason with words that interpreters say to each other.
func TestAnInterpreterThatFails(t *testing.T) {
	needsInterpreters(t)
	err := prepare(t, &pyapp.App{Target: "once:app", Interpreters: 2}).Start(t.Context())
	if !errors.Is(err, pyapp.ErrImport) || !strings.Contains(err.Error(), "RuntimeError: it is already open") {
		t.Error(err)
	}
}

// TestInterpretersNeedPython313 is for older versions.
func TestInterpretersNeedPython313(t *testing.T) {
	if exec.Command(python(t), "-c", "import sys; sys.exit(sys.version_info < (3, 13))").Run() == nil {
		t.Skip("this Python has loops in subinterpreters")
	}
	app := prepare(t, &pyapp.App{Target: "interpreted:app", Interpreters: 2})
	if err := app.Start(t.Context()); !errors.Is(err, pyapp.ErrInterpreters) || !strings.Contains(err.Error(), "CPython 3.13") || !strings.Contains(err.Error(), "App.Workers") {
		t.Error(err)
	}
}
