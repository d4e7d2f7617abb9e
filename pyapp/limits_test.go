package pyapp_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/pyapp"
)

// TestMaxMemory: a function that asks for too much fails, and the worker goes on.
func TestMaxMemory(t *testing.T) {
	app := prepare(t, &pyapp.App{MaxMemory: 8 << 30})
	if limit, err := pyapp.Call[int64](t.Context(), app, "functions:limit", "AS"); limit != 8<<30 || err != nil {
		t.Error(limit, err)
	}
	pid, err := pyapp.Call[int](t.Context(), app, "functions:pid")
	if err != nil {
		t.Fatal(err)
	}
	_, err = pyapp.Call[int](t.Context(), app, "functions:allocate", int64(16<<30))
	if raised := (*pyapp.Error)(nil); !errors.As(err, &raised) || raised.Type != "MemoryError" {
		t.Error(err)
	}
	if n, err := pyapp.Call[int](t.Context(), app, "functions:allocate", 1<<20); n != 1<<20 || err != nil {
		t.Error(n, err)
	}
	if now, err := pyapp.Call[int](t.Context(), app, "functions:pid"); now != pid || err != nil {
		t.Error(now, pid, err)
	}
}

// TestTooLittleMemory: a worker that cannot start says so.
func TestTooLittleMemory(t *testing.T) {
	app := prepare(t, &pyapp.App{MaxMemory: 32 << 20, Stderr: io.Discard})
	err := app.Start(t.Context())
	if !errors.Is(err, pyapp.ErrStart) {
		t.Error(err)
	}
}

// TestInterpreterIsAScript: it sets limits of the system, and calls and connections work as before.
func TestInterpreterIsAScript(t *testing.T) {
	app := prepare(t, &pyapp.App{Python: limited(t, "ulimit -n 100 && ulimit -t 1000")})
	for name, want := range map[string]int64{"NOFILE": 100, "CPU": 1000} {
		if limit, err := pyapp.Call[int64](t.Context(), app, "functions:limit", name); limit != want || err != nil {
			t.Error(name, limit, err)
		}
	}
}

// TestScriptThatClosesDescriptors: the error names the descriptor that is missing.
func TestScriptThatClosesDescriptors(t *testing.T) {
	app := prepare(t, &pyapp.App{Python: limited(t, "exec 3>&-"), Stderr: io.Discard})
	err := app.Start(t.Context())
	if !errors.Is(err, pyapp.ErrExited) || !strings.Contains(err.Error(), "descriptor 3: Bad file descriptor; a script that is App.Python must pass it on") {
		t.Error(err)
	}
}

// TestConnectionsBeyondTheLimitOfDescriptors fail, and the worker serves others.
func TestConnectionsBeyondTheLimitOfDescriptors(t *testing.T) {
	app := prepare(t, &pyapp.App{Python: limited(t, "ulimit -n 60")})
	inbox := notes(app)
	var clients []net.Conn
	var all []<-chan error
	var refused error
	for refused == nil {
		if len(all) == 60 {
			t.Fatal("there is no limit")
		}
		client, conn := accept(t, "tcp")
		served := serveConn(t, t.Context(), app, conn, "protocols:Notes")
		made := make(chan struct{})
		go func() {
			defer close(made)
			inbox.Get(t.Context())
		}()
		select {
		case <-made:
			clients, all = append(clients, client), append(all, served)
		case refused = <-served:
			inbox.TryPut("") // for the goroutine
			<-made
		}
	}
	if !raised("OSError")(refused) {
		t.Error(refused)
	}
	for i := range slices.Backward(all) {
		clients[i].Close()
		if err := <-all[i]; err != nil {
			t.Error(err)
		}
	}
	if sum, err := pyapp.Call[int](t.Context(), app, "functions:add", 1, 2); sum != 3 || err != nil {
		t.Error(sum, err)
	}
}

// limited returns an interpreter that is a script, which runs a command first.
func limited(t *testing.T, command string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "python")
	script := fmt.Sprintf("#!/bin/sh\n%s && exec '%s' \"$@\"\n", command, python(t))
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}
