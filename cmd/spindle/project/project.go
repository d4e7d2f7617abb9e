// Package project writes small projects that use Spindle, each with tests and a simulation.
package project

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The files have the suffix .txt, because the go command leaves out directories that have a
// go.mod, and would compile the programs.
//
//go:embed files
var files embed.FS

const (
	suffix      = ".txt"
	placeholder = "__NAME__"
	module      = "github.com/spindleloop/spindle"
)

// Kind is a kind of project.
type Kind struct {
	Name    string
	About   string
	Program []string // the commands that run its program
	Tests   []string // the commands that prepare and run its tests
}

// Kinds are all kinds.
var Kinds = []Kind{
	{"service", "a web service with handlers in tasks", []string{"go run ."}, []string{"go mod tidy", "go test ./..."}},
	{"protocol", "a server with a protocol of its own over TCP", []string{"go run ."}, []string{"go mod tidy", "go test ./..."}},
	{"planes", "a web service with workers that may block", []string{"go run ."}, []string{"go mod tidy", "go test ./..."}},
	{"python", "an ASGI app in Python on Spindle's loop", []string{"spindle app:app"}, []string{"pip install %s", "pip install -e '.[test]'", "pytest"}},
}

// Project says what to write.
type Project struct {
	Dir     string // must not exist; its last part is the name of the project
	Kind    string
	Version string // of Spindle, empty if Source is set
	Source  string // a checkout of Spindle, used in place of a release
}

// Write writes the files of a project and returns its kind and their names. If it fails, it
// leaves no files.
func (p Project) Write() (kind Kind, names []string, err error) {
	name, kind, err := p.check()
	if err != nil {
		return kind, nil, err
	}
	if err := os.MkdirAll(filepath.Dir(p.Dir), 0o777); err != nil {
		return kind, nil, err
	}
	if err := os.Mkdir(p.Dir, 0o777); errors.Is(err, fs.ErrExist) {
		return kind, nil, fmt.Errorf("%s exists already; choose another name", p.Dir)
	} else if err != nil {
		return kind, nil, err
	}
	names, err = p.write(name, "files/"+kind.Name)
	if err != nil {
		return kind, nil, errors.Join(err, os.RemoveAll(p.Dir))
	}
	return kind, names, nil
}

// valid matches names that a Go module, a Python package and a directory may have.
var valid = regexp.MustCompile(`^[a-z][a-z0-9]*([-_][a-z0-9]+)*$`)

// ofGo are the names at the top of Go's standard library, and two patterns of the go command.
var ofGo = strings.Fields(`all archive bufio builtin bytes cmd cmp compress container context crypto
	database debug embed encoding errors expvar flag fmt go hash html image index internal io iter log
	maps math mime net os path plugin reflect regexp runtime slices sort std strconv strings structs
	sync syscall testing text time unicode unique unsafe vendor weak`)

func (p Project) check() (name string, kind Kind, err error) {
	name = filepath.Base(p.Dir)
	at := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == p.Kind })
	switch {
	case at < 0:
		var names []string
		for _, k := range Kinds {
			names = append(names, k.Name)
		}
		return name, kind, fmt.Errorf("no kind %q (have %s)", p.Kind, strings.Join(names, ", "))
	case !valid.MatchString(name):
		return name, kind, fmt.Errorf("bad name %q: want lower-case letters, digits and single dashes, such as my-service", name)
	case Kinds[at].Name != "python" && slices.Contains(ofGo, name):
		return name, kind, fmt.Errorf("the name %q is taken by a package of Go; choose another name", name)
	}
	return name, Kinds[at], nil
}

func (p Project) write(name, from string) (names []string, err error) {
	entries, err := files.ReadDir(from)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		text, err := files.ReadFile(path.Join(from, entry.Name()))
		if err != nil {
			return names, err
		}
		to := strings.TrimSuffix(entry.Name(), suffix)
		content := strings.ReplaceAll(string(text), placeholder, name)
		if to == "go.mod" {
			content += p.require()
		}
		if err := os.WriteFile(filepath.Join(p.Dir, to), []byte(content), 0o666); err != nil {
			return names, err
		}
		names = append(names, to)
	}
	return names, nil
}

// require returns the lines of go.mod that name Spindle.
func (p Project) require() string {
	if p.Source == "" {
		return fmt.Sprintf("\nrequire %s %s\n", module, p.Version)
	}
	return fmt.Sprintf("\nrequire %s v0.0.0\n\nreplace %[1]s => %q\n", module, p.Source)
}

// Checkout returns the root of the checkout of Spindle that contains dir.
func Checkout(dir string) (root string, ok bool) {
	dir, err := filepath.Abs(dir)
	for err == nil {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module "+module+"\n") {
			return dir, true
		}
		if dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	return "", false
}
