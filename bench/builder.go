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

// A builder provides the programs to measure: it builds Spindle, compiles the C peers
// and finds the interpreters. It builds each program once.
type builder struct {
	dir         string // a temporary directory for the results
	root        string // the directory of the module that Spindle is built from
	benchPath   string // this binary; built for an older version
	spindlePath string // given by the user, or built
	tags        string // build tags
	beforeRoot  string // a checkout of an older version, if the user gave one
	portable    bool   // also build with portable switching
	others      map[string]*builder

	built map[string]string // C source to its binary
}

// notInstalled is the error for a tool that is missing on this machine. It says what to
// install.
type notInstalled string

func (e notInstalled) Error() string { return string(e) }

func newBuilder(o options) (*builder, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "spindle-bench-")
	if err != nil {
		return nil, err
	}
	return &builder{
		dir: dir, root: "..", benchPath: self, spindlePath: o.spindle, beforeRoot: o.before, portable: o.portable,
		others: map[string]*builder{}, built: map[string]string{},
	}, nil
}

func (b *builder) close() { os.RemoveAll(b.dir) }

// other returns the builder of another version of Spindle to compare with: "before" is an
// older one, and "portable" switches tasks as on a Go version without direct switching.
func (b *builder) other(version string) (*builder, error) {
	o := &builder{dir: filepath.Join(b.dir, version), built: map[string]string{}}
	switch {
	case b.others[version] != nil:
		return b.others[version], nil
	case version == "before" && b.beforeRoot == "":
		return nil, notInstalled("no --before DIR")
	case version == "portable" && !b.portable:
		return nil, notInstalled("no --portable")
	case version == "before":
		o.root = b.beforeRoot
	default:
		o.root, o.tags = b.root, "spindle_portable"
	}
	b.others[version] = o
	return o, os.Mkdir(o.dir, 0o700)
}

// spindle returns the path of the spindle command.
func (b *builder) spindle() (string, error) {
	if b.spindlePath != "" {
		return exec.LookPath(b.spindlePath)
	}
	binary, err := b.build(b.root, "./cmd/spindle")
	b.spindlePath = binary
	return binary, err
}

// bench returns the path of the bench command, which contains the servers written in Go.
func (b *builder) bench() (string, error) {
	if b.benchPath != "" {
		return b.benchPath, nil
	}
	binary, err := b.build(filepath.Join(b.root, "bench"), ".")
	b.benchPath = binary
	return binary, err
}

// build builds a command from the module in dir.
func (b *builder) build(dir, command string) (string, error) {
	source := filepath.Join(dir, command)
	if files, _ := filepath.Glob(filepath.Join(source, "*.go")); len(files) == 0 {
		return "", notInstalled(fmt.Sprintf("no Go files in %s; run this in bench/, or give --spindle PATH", source))
	}
	name, err := filepath.Abs(source)
	if err != nil {
		return "", err
	}
	binary := filepath.Join(b.dir, filepath.Base(name))
	build := exec.Command("go", "build", "-tags", b.tags, "-o", binary, command)
	build.Dir = dir
	if err := run(build); err != nil {
		return "", err
	}
	return binary, nil
}

// source writes one of the embedded programs to a file and returns its path.
func (b *builder) source(name string) (string, error) {
	text, err := peers.Sources.ReadFile(name)
	if err != nil {
		return "", err
	}
	path := filepath.Join(b.dir, filepath.Base(name))
	return path, os.WriteFile(path, text, 0o644)
}

// compileC compiles one of the embedded C programs.
func (b *builder) compileC(name string, libraries ...string) (string, error) {
	if binary, ok := b.built[name]; ok {
		return binary, nil
	}
	cc, err := exec.LookPath("gcc")
	if err != nil {
		return "", notInstalled("no gcc; apt-get install gcc libc6-dev")
	}
	source, err := b.source("c/" + name)
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
	b.built[name] = binary
	return binary, nil
}

// hasHeader reports whether the compiler finds a header.
func hasHeader(cc, header string) bool {
	try := exec.Command(cc, "-E", "-x", "c", "-")
	try.Stdin = strings.NewReader("#include <" + header + ">\n")
	return try.Run() == nil
}

func (b *builder) node() (string, error) {
	path, err := exec.LookPath("node")
	if err != nil {
		return "", notInstalled("no node; apt-get install nodejs")
	}
	return path, nil
}

// python returns the path of an interpreter that has the module. It tries the system's
// interpreter first, because distribution packages such as uvloop are built for it.
func (b *builder) python(module string) (string, error) {
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

// run runs cmd. If it fails, the error includes its output.
func run(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, bytes.TrimSpace(out))
	}
	return nil
}
