//go:build linux

package main

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spindleloop/spindle/bench/peers"
	"github.com/spindleloop/spindle/internal/tlstest"
)

// A builder provides the programs to measure: it builds Spindle, compiles the C peers
// and finds the interpreters. It builds each program once.
type builder struct {
	dir         string   // a temporary directory for the results
	root        string   // the directory of the module that Spindle is built from
	benchPath   string   // this binary; built for an older version
	spindlePath string   // given by the user, or built
	tags        string   // build tags
	beforeRoot  string   // a checkout of an older version, if the user gave one
	portable    bool     // also build with portable switching
	profiles    string   // a directory for profiles of servers, or ""
	pythons     []string // interpreters to look for modules in
	main        string   // the directory of the module with the benchmarks
	packages    string   // a directory with the Python package of an older version, or ""
	others      map[string]*builder

	built map[string]string // C source to its binary, and binaries that are there
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
		dir: dir, root: "..", main: "..", benchPath: self, spindlePath: o.spindle, beforeRoot: o.before, portable: o.portable,
		profiles: o.profiles, pythons: o.pythons(), others: map[string]*builder{}, built: map[string]string{},
	}, nil
}

func (b *builder) close() { os.RemoveAll(b.dir) }

// other returns the builder of another version of Spindle to compare with: "before" is an
// older one, and "portable" switches tasks as on a Go version without direct switching.
func (b *builder) other(version string) (*builder, error) {
	o := &builder{dir: filepath.Join(b.dir, version), main: b.main, profiles: b.profiles, pythons: b.pythons, built: map[string]string{}}
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
	if b.built[binary] != "" {
		return binary, nil
	}
	build := exec.Command("go", "build", "-tags", b.tags, "-o", binary, command)
	build.Dir = dir
	if err := run(build); err != nil {
		return "", err
	}
	b.built[binary] = binary
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

// python returns the path of an interpreter that has the module.
func (b *builder) python(module string) (string, error) {
	if module == "spindle" && b.tags != "" {
		return "", notInstalled("the Python package has no portable build")
	}
	if module == "spindle" && b.root != b.main {
		if err := b.installOlder(); err != nil {
			return "", err
		}
		module = "sys"
	}
	found := ""
	for _, name := range b.pythons {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		found = path
		if exec.Command(path, "-c", "import "+module).Run() == nil {
			return path, nil
		}
	}
	if found == "" {
		return "", notInstalled("no python3; apt-get install python3")
	}
	return "", notInstalled(fmt.Sprintf("%s has no %s; pip install %[2]s, and give --python PATH", found, module))
}

// installOlder builds the Python package of an older version.
func (b *builder) installOlder() error {
	if b.packages != "" {
		return nil
	}
	python, err := b.python("pip")
	if err != nil {
		return err
	}
	dir := filepath.Join(b.dir, "packages")
	if err := run(exec.Command(python, "-m", "pip", "install", "-q", "--no-deps", "--target", dir, filepath.Join(b.root, "python"))); err != nil {
		return err
	}
	b.packages = dir
	return nil
}

// apps returns the directory of the Python apps.
func (b *builder) apps() string {
	dir, err := filepath.Abs(filepath.Join(b.main, "python", "bench"))
	if err != nil {
		panic(fmt.Sprintf("bench: %v", err)) // there is no working directory
	}
	return dir
}

// inApps returns the beginning of a command that runs Python with the apps, and with the package of this version.
func (b *builder) inApps(python string) []string {
	path := b.apps()
	if b.packages != "" {
		path = b.packages + string(os.PathListSeparator) + path
	}
	return []string{"env", "-C", b.apps(), "PYTHONPATH=" + path, python}
}

// certificate returns the name of a file with a certificate and its key, for servers that are not written in Go.
func (b *builder) certificate() string {
	name := filepath.Join(b.dir, "certificate.pem")
	if b.built[name] == "" {
		made := tlstest.NewAuthority().Issue("localhost")
		key, err := x509.MarshalPKCS8PrivateKey(made.PrivateKey)
		text := append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
			pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made.Certificate[0]})...)
		if err = errors.Join(err, os.WriteFile(name, text, 0o600)); err != nil {
			panic(fmt.Sprintf("bench: %v", err)) // this process has made the directory
		}
		b.built[name] = name
	}
	return name
}

// run runs cmd. If it fails, the error includes its output.
func run(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, bytes.TrimSpace(out))
	}
	return nil
}
