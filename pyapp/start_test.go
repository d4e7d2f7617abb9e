package pyapp_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/proctest"
	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/pyapp"
)

func TestErrorsOfAStart(t *testing.T) {
	interpreter := python(t)
	bare := filepath.Join(t.TempDir(), "bare") // without the packages of the environment
	if err := os.WriteFile(bare, []byte("#!/bin/sh\nexec '"+interpreter+"' -S \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		app    *pyapp.App
		reason error
		text   string
	}{
		"not installed": {&pyapp.App{Target: "main:app", Python: bare}, pyapp.ErrNotInstalled, bare + " -m pip install ./python"},
		"module":        {&pyapp.App{Target: "nothing:app"}, pyapp.ErrNoModule, "or on the path; set App.Dir to the directory of the module"},
		"file":          {&pyapp.App{Target: "nothing.py"}, pyapp.ErrNoModule, "there is no file nothing.py"},
		"attribute":     {&pyapp.App{Target: "raw:nothing"}, pyapp.ErrNoAttribute, "raw:nothing: module 'raw' has no attribute 'nothing'"},
		"not an app":    {&pyapp.App{Target: "wrong:number"}, pyapp.ErrNotAnApp, "wrong:number: 3 is not an app"},
		"import":        {&pyapp.App{Target: "broken:app"}, pyapp.ErrImport, "broken:app: importing broken failed\n"},
		"lifespan":      {&pyapp.App{Target: "wrong:fails"}, pyapp.ErrLifespan, "no database"},
		"time-out":      {&pyapp.App{Target: "wrong:hangs", StartTimeout: 3 * time.Second}, pyapp.ErrStartTimeout, "longer than 3s"},
		"options":       {&pyapp.App{Target: "raw:app", Args: []string{"--no-such-option"}}, pyapp.ErrExited, "exit status 2"},
		"directory":     {&pyapp.App{Target: "raw:app", Dir: "nothing"}, pyapp.ErrNoDirectory, "nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			app := test.app
			if app.Python == "" {
				app.Python = interpreter
			}
			if app.Dir == "" {
				app.Dir = "testdata"
			}
			app.ErrorLog = slog.New(slog.DiscardHandler)
			app.Stderr, _ = os.Open(os.DevNull)
			defer app.Stderr.(*os.File).Close()
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			err := app.Start(ctx)
			if !errors.Is(err, pyapp.ErrStart) || !errors.Is(err, test.reason) || !strings.Contains(err.Error(), test.text) || !strings.HasPrefix(err.Error(), "pyapp: "+app.Target+": ") {
				t.Errorf("%v", err)
			}
			if err := app.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestNoPython(t *testing.T) {
	app := &pyapp.App{Target: "main:app", Python: "no-such-python", ErrorLog: slog.New(slog.DiscardHandler)}
	defer app.Close()
	err := app.Start(t.Context())
	if !errors.Is(err, pyapp.ErrNoPython) || !strings.Contains(err.Error(), "no-such-python: there is no such Python interpreter; set App.Python or $VIRTUAL_ENV") {
		t.Error(err)
	}
	if code, text := get(t, serve(t, app)); code != http.StatusServiceUnavailable || strings.Contains(text, "python") {
		t.Error(code, text)
	}
	if _, err := pyapp.Call[int](t.Context(), app, "math:sqrt", 4); !errors.Is(err, pyapp.ErrUnavailable) || !errors.Is(err, pyapp.ErrNoPython) {
		t.Error(err)
	}
}

// TestNoDirectoryForSockets: Start reports why, and the App is not closed.
func TestNoDirectoryForSockets(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "nothing"))
	app := &pyapp.App{Target: "main:app", ErrorLog: slog.New(slog.DiscardHandler)}
	defer app.Close()
	if err := app.Start(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, err := pyapp.Call[int](t.Context(), app, "math:sqrt", 4); !errors.Is(err, pyapp.ErrUnavailable) || !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestVirtualEnvironment: $VIRTUAL_ENV names the interpreter.
func TestVirtualEnvironment(t *testing.T) {
	env := t.TempDir()
	app := &pyapp.App{Env: []string{"VIRTUAL_ENV=/nothing", "VIRTUAL_ENV=" + env}, ErrorLog: slog.New(slog.DiscardHandler)}
	defer app.Close()
	if err := app.Start(t.Context()); !errors.Is(err, pyapp.ErrStart) || !strings.Contains(err.Error(), filepath.Join(env, "bin", "python")+": ") {
		t.Error(err)
	}
}

// TestStartAfterAFailure: an App with a missing module starts once the module exists.
func TestStartAfterAFailure(t *testing.T) {
	dir := t.TempDir()
	app := prepare(t, &pyapp.App{Dir: dir, Target: "late:app"})
	if err := app.Start(t.Context()); !errors.Is(err, pyapp.ErrNoModule) {
		t.Error(err)
	}
	text, err := os.ReadFile(filepath.Join("testdata", "raw.py"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "late.py"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := app.Start(t.Context()); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "late.py"), []byte("app = 3"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := app.Restart(t.Context()); !errors.Is(err, pyapp.ErrNotAnApp) {
		t.Error(err)
	}
	if code, _ := get(t, serve(t, app)+"/pid"); code != 200 { // the old one continues
		t.Error(code)
	}
}

// TestStartOfAnAppThatServes: a Start that fails leaves the workers alone that another one has started.
func TestStartOfAnAppThatServes(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join("testdata", "raw.py"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "raw.py")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	app := prepare(t, &pyapp.App{Dir: dir, Target: "raw:app", Workers: 2, ErrorLog: slog.New(slog.DiscardHandler)})
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("broken("), 0o644); err != nil {
		t.Fatal(err)
	}
	url := serve(t, app)
	_, first := get(t, url+"/pid")
	pid, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	if !proctest.KillChild(pid) {
		t.Fatal("the worker has ended before it was killed")
	}
	until.Holds(t, func() bool { return app.Start(t.Context()) != nil })
	until.Holds(t, func() bool { // a request may still meet the one that was killed
		code, pid := get(t, url+"/pid")
		return code == 200 && pid != first
	})
}

// TestOptionsOfAnotherServer: a worker ignores the sockets, certificates and version of HTTP that
// pyproject.toml has for python -m spindle.
func TestOptionsOfAnotherServer(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	text := "[tool.spindle.server]\nport = 443\nfd = 99\nworkers = 4\nhttp = \"2\"\nssl-certfile = \"nothing.pem\"\nssl-keyfile = \"nothing.key\"\n"
	if err := os.WriteFile(filepath.Join(dir, "pyproject.toml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	app := prepare(t, &pyapp.App{Dir: dir, Target: "raw:app"})
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if code, text := get(t, serve(t, app)+"/pid"); code != 200 {
		t.Error(code, text)
	}
}

func TestMisuse(t *testing.T) {
	for want, app := range map[string]*pyapp.App{
		"Target":                       {},
		"App.Workers is negative":      {Workers: -1},
		"App.Interpreters is negative": {Interpreters: -1},
		"App.CallThreads is negative":  {CallThreads: -1},
		"App.StartTimeout is negative": {StartTimeout: -1},
		"App.DrainTimeout is negative": {DrainTimeout: -1},
		"App.MaxCallBytes is negative": {MaxCallBytes: -1},
		"App.MaxGoCalls is negative":   {MaxGoCalls: -1},
		"App.MaxMemory is negative":    {MaxMemory: -1},
	} {
		func() {
			defer func() {
				if text, ok := recover().(string); !ok || !strings.HasPrefix(text, "pyapp: ") || !strings.Contains(text, want) {
					t.Errorf("%s: %v", want, text)
				}
			}()
			if want == "Target" {
				app.ServeHTTP(nil, nil)
			}
			app.Start(t.Context())
		}()
	}
}
