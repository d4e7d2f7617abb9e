//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spindleloop/spindle/bench/peers"
)

// A workshop makes the programs to measure: it builds Spindle, compiles the C
// peers and finds the interpreters. Each is made once.
type workshop struct {
	dir         string // temporary, holds all that is made
	root        string // of the module that Spindle is built from
	benchPath   string // this binary; for an older version, made
	spindlePath string // given by the user, or made
	beforeRoot  string // a checkout of an older version, if the user gave one
	older       *workshop

	made map[string]string // C source to its binary
}

// notInstalled is the error for what this machine does not have; it says what
// to install.
type notInstalled string

func (e notInstalled) Error() string { return string(e) }

func newWorkshop(spindlePath, beforeRoot string) (*workshop, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "spindle-bench-")
	if err != nil {
		return nil, err
	}
	return &workshop{
		dir: dir, root: "..", benchPath: self, spindlePath: spindlePath, beforeRoot: beforeRoot,
		made: map[string]string{},
	}, nil
}

func (w *workshop) close() { os.RemoveAll(w.dir) }

// before is the workshop that builds the older version to compare with.
func (w *workshop) before() (*workshop, error) {
	if w.beforeRoot == "" {
		return nil, notInstalled("no --before DIR")
	}
	if w.older == nil {
		dir := filepath.Join(w.dir, "before")
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
		w.older = &workshop{dir: dir, root: w.beforeRoot, made: map[string]string{}}
	}
	return w.older, nil
}

// spindle is the path of the command.
func (w *workshop) spindle() (string, error) {
	if w.spindlePath != "" {
		return exec.LookPath(w.spindlePath)
	}
	binary, err := w.build(w.root, "./cmd/spindle")
	w.spindlePath = binary
	return binary, err
}

// bench is the path of the benchmark's own binary, which the servers in Go are linked
// into.
func (w *workshop) bench() (string, error) {
	if w.benchPath != "" {
		return w.benchPath, nil
	}
	binary, err := w.build(filepath.Join(w.root, "bench"), ".")
	w.benchPath = binary
	return binary, err
}

// build builds a command from the module in dir.
func (w *workshop) build(dir, command string) (string, error) {
	source := filepath.Join(dir, command)
	if files, _ := filepath.Glob(filepath.Join(source, "*.go")); len(files) == 0 {
		return "", notInstalled(fmt.Sprintf("no Go files in %s; run this in bench/, or give --spindle PATH", source))
	}
	name, err := filepath.Abs(source)
	if err != nil {
		return "", err
	}
	binary := filepath.Join(w.dir, filepath.Base(name))
	build := exec.Command("go", "build", "-o", binary, command)
	build.Dir = dir
	if err := run(build); err != nil {
		return "", err
	}
	return binary, nil
}

// source writes one of the embedded programs to the workshop and returns its path.
func (w *workshop) source(name string) (string, error) {
	text, err := peers.Sources.ReadFile(name)
	if err != nil {
		return "", err
	}
	path := filepath.Join(w.dir, filepath.Base(name))
	return path, os.WriteFile(path, text, 0o644)
}

// compileC compiles one of the embedded C programs.
func (w *workshop) compileC(name string, libraries ...string) (string, error) {
	if binary, ok := w.made[name]; ok {
		return binary, nil
	}
	cc, err := exec.LookPath("gcc")
	if err != nil {
		return "", notInstalled("no gcc; apt-get install gcc libc6-dev")
	}
	source, err := w.source("c/" + name)
	if err != nil {
		return "", err
	}
	if text, err := os.ReadFile(source); err != nil {
		return "", err
	} else if bytes.Contains(text, []byte("<uv.h>")) && !hasHeader(cc, "uv.h") {
		return "", notInstalled("no uv.h; apt-get install libuv1-dev")
	}
	binary := strings.TrimSuffix(source, ".c")
	if err := run(exec.Command(cc, append([]string{"-O2", "-o", binary, source}, libraries...)...)); err != nil {
		return "", err
	}
	w.made[name] = binary
	return binary, nil
}

// hasHeader reports whether the compiler finds a header.
func hasHeader(cc, header string) bool {
	try := exec.Command(cc, "-E", "-x", "c", "-")
	try.Stdin = strings.NewReader("#include <" + header + ">\n")
	return try.Run() == nil
}

func (w *workshop) node() (string, error) {
	path, err := exec.LookPath("node")
	if err != nil {
		return "", notInstalled("no node; apt-get install nodejs")
	}
	return path, nil
}

// python is the interpreter that has the module. The system's own is tried
// first, as distribution packages such as uvloop's are made for it.
func (w *workshop) python(module string) (string, error) {
	found := false
	for _, name := range []string{"/usr/bin/python3", "python3"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		found = true
		if exec.Command(path, "-c", "import "+module).Run() == nil {
			return path, nil
		}
	}
	if !found {
		return "", notInstalled("no python3; apt-get install python3")
	}
	return "", notInstalled(fmt.Sprintf("python3 has no %s; apt-get install python3-%s", module, module))
}

// run runs cmd and turns what it printed into its error.
func run(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, bytes.TrimSpace(out))
	}
	return nil
}
