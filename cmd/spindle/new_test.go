package main

import (
	"bytes"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/cmd/spindle/project"
)

// TestNewProjectsPassTheirTests writes a project of each kind and runs its tests, as its owner
// would.
func TestNewProjectsPassTheirTests(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short: compiles four projects")
	}
	for _, kind := range project.Kinds {
		t.Run(kind.Name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "my-"+kind.Name)
			got := run(t.Context(), "new", dir, "--kind", kind.Name)
			if got.code != 0 || got.errs != "" || !strings.Contains(got.out, "cd "+dir+"\n") {
				t.Fatalf("got %+v", got)
			}
			checkFiles(t, dir)
			if kind.Name == "python" {
				python := os.Getenv("SPINDLE_PYTHON")
				if python == "" {
					t.Skip("SPINDLE_PYTHON is not set: it names an interpreter with the packages spindle-loop, pytest and setuptools")
				}
				inProject(t, dir, python, "-m", "pytest", "-q", "-p", "no:cacheprovider")
				inProject(t, dir, python, "-m", "pip", "install", "--dry-run", "--no-deps", "--no-index", "--no-build-isolation", "-e", ".")
				return
			}
			if sums, err := os.ReadFile("../../go.sum"); err != nil || os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o666) != nil {
				t.Fatal("cannot copy go.sum", err)
			}
			inProject(t, dir, "go", "vet", ".")
			inProject(t, dir, "go", "test", ".")
		})
	}
}

// checkFiles checks that the name of the project was filled in, and that Go code is formatted.
func checkFiles(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("__")) && bytes.Contains(text, []byte("NAME")) {
			t.Errorf("%s has a placeholder", file)
		}
		if filepath.Ext(file) != ".go" {
			continue
		}
		if formatted, err := format.Source(text); err != nil || !bytes.Equal(formatted, text) {
			t.Errorf("%s is not formatted, %v", file, err)
		}
	}
}

// inProject runs a command. The go command completes go.mod from its cache of modules, as "go mod
// tidy" would from the network; it has the sums of the checkout.
func inProject(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir = dir
	command.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off", "PYTHONDONTWRITEBYTECODE=1")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

func TestNewSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "taken"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "want one NAME"},
		{[]string{"a", "b"}, "want one NAME"},
		{[]string{filepath.Join(dir, "taken")}, "exists already"},
		{[]string{filepath.Join(dir, "Bad Name")}, `bad name "Bad Name"`},
		{[]string{filepath.Join(dir, "net")}, `"net" is taken by a package of Go`},
		{[]string{filepath.Join(dir, "x"), "--kind", "yarn"}, `no kind "yarn" (have service, protocol, planes, python)`},
		{[]string{"--kind", "yarn", filepath.Join(dir, "x")}, `no kind "yarn"`},
		{[]string{filepath.Join(dir, "x"), "--source", dir}, "not a checkout of Spindle"},
	} {
		got := run(t.Context(), append([]string{"new"}, test.args...)...)
		if got.code != 2 || got.out != "" || strings.Count(got.errs, "\n") != 1 || !strings.Contains(got.errs, test.want) {
			t.Errorf("%q: got %+v; want %q", test.args, got, test.want)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("the directory has %v, %v", left, err)
	}
	t.Chdir(dir) // not in a checkout
	if got := run(t.Context(), "new", "x"); got.code != 2 || !strings.Contains(got.errs, "--source DIR") {
		t.Errorf("outside of a checkout: %+v", got)
	}
}
