package guide_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// sources returns the text of all files below a directory of the module that have such an ending.
func sources(t *testing.T, dir, suffix string) string {
	t.Helper()
	var all bytes.Buffer
	err := filepath.WalkDir(filepath.Join("../..", dir), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, suffix) || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

var (
	commandLine = regexp.MustCompile("(?:^|[ `/])spindle ((?:[a-z]+)(?: demo| bench)?)((?: [^`#\n]*)?)")
	aFlag       = regexp.MustCompile(`--([a-z][a-z0-9-]*)`)
	flagSet     = regexp.MustCompile(`flag\.NewFlagSet\("([a-z ]+)"`)
	flagOf      = regexp.MustCompile(`flags?\.[A-Z]\w*\((?:&[\w.]+, )?"([a-z][a-z0-9-]*)"`)
)

// flagsOfCommands returns the flags of each subcommand, as its file declares them.
func flagsOfCommands(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob("../../cmd/spindle/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal("no files of the command", err)
	}
	all := map[string][]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := ""
		for line := range strings.Lines(string(text)) {
			if m := flagSet.FindStringSubmatch(line); m != nil {
				name = m[1]
				all[name] = []string{"help"}
			} else if m := flagOf.FindStringSubmatch(line); m != nil && name != "" {
				all[name] = append(all[name], m[1])
			}
		}
	}
	return all
}

// TestCommandsExist looks for each line that calls the command: the subcommand and its flags exist.
func TestCommandsExist(t *testing.T) {
	flags := flagsOfCommands(t)
	found := 0
	for page, text := range pages(t) {
		for line := range strings.Lines(text) {
			for _, m := range commandLine.FindAllStringSubmatch(line, -1) {
				name := m[1]
				if _, ok := flags[name]; !ok {
					if !strings.HasPrefix(strings.TrimSpace(line), "spindle ") && !strings.Contains(line, "`spindle ") && !strings.Contains(line, "cmd/spindle ") {
						continue // a sentence
					}
					t.Errorf("%s: there is no command %q: %s", page, name, line)
					continue
				}
				found++
				for _, f := range aFlag.FindAllStringSubmatch(m[2], -1) {
					if !slices.Contains(flags[name], f[1]) {
						t.Errorf("%s: spindle %s has no flag --%s: %s", page, name, f[1], line)
					}
				}
			}
		}
	}
	if found < 15 {
		t.Errorf("only %d calls of the command were found", found)
	}
}

// TestOptionsOfThePythonServerExist looks for each option on the server's page.
func TestOptionsOfThePythonServerExist(t *testing.T) {
	text, err := os.ReadFile("python-server.md")
	if err != nil {
		t.Fatal(err)
	}
	options := sources(t, "python/spindle/server", ".py")
	found := 0
	for _, code := range inline.FindAllString(string(text), -1) {
		if strings.Contains(code, "uvicorn") || strings.Contains(code, "gunicorn") || strings.Contains(code, "curl") {
			continue
		}
		for _, m := range aFlag.FindAllStringSubmatch(code, -1) {
			found++
			if !strings.Contains(options, `"--`+m[1]+`"`) && !strings.Contains(options, strings.ReplaceAll(m[1], "-", "_")+":") {
				t.Errorf("python-server.md: %s: there is no option --%s", code, m[1])
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d options were found", found)
	}
}

// TestFixedNamesExist looks for names that programs use as text: paths of the inspector's API,
// metrics, and variables of the environment.
func TestFixedNamesExist(t *testing.T) {
	code := sources(t, ".", ".go") + sources(t, "python", ".py") + sources(t, "python/src", ".c")
	for name, pattern := range map[string]*regexp.Regexp{
		"path":     regexp.MustCompile(`/api/v1/([a-z]+)`),
		"metric":   regexp.MustCompile("`(spindle_[a-z_]+)`"),
		"variable": regexp.MustCompile(`\b(SPINDLE_[A-Z_]+)\b`),
	} {
		found := 0
		for page, text := range pages(t) {
			for _, m := range pattern.FindAllStringSubmatch(text, -1) {
				found++
				want := m[1]
				if option, ok := strings.CutPrefix(want, "SPINDLE_"); ok && strings.HasPrefix(page, "python-server") {
					want = strings.ToLower(option) // each option has a variable
				}
				if !strings.Contains(code, want) {
					t.Errorf("%s: there is no %s %s", page, name, m[1])
				}
			}
		}
		if found == 0 {
			t.Errorf("no %s was found", name)
		}
	}
}

// TestFilesExist looks for files that the pages name without a link.
func TestFilesExist(t *testing.T) {
	file := regexp.MustCompile("`((?:[\\w.-]+/)+[\\w.-]+\\.(?:go|py|md|json|svg|c|pgo))`")
	found := 0
	for page, text := range pages(t) {
		for _, m := range file.FindAllStringSubmatch(text, -1) {
			found++
			inRoot := filepath.Join("../..", m[1])
			_, err := os.Stat(inRoot)
			if _, beside := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil && beside != nil {
				t.Errorf("%s: there is no %s", page, m[1])
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d files were found", found)
	}
}

// anchor returns the fragment by which a heading is linked to.
func anchor(heading string) string {
	heading = strings.ToLower(strings.Trim(heading, "# \n"))
	heading = regexp.MustCompile(`[^\w -]`).ReplaceAllString(heading, "")
	return strings.ReplaceAll(heading, " ", "-")
}

// TestAnchorsExist checks the part of links after the #.
func TestAnchorsExist(t *testing.T) {
	withAnchor := regexp.MustCompile(`\]\(([^)#:]*)#([^)]+)\)`)
	found := 0
	for page, text := range pages(t) {
		prose := inline.ReplaceAllString(fenced.ReplaceAllString(text, ""), "")
		for _, m := range withAnchor.FindAllStringSubmatch(prose, -1) {
			found++
			target := page
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(page), m[1])
			}
			to, err := os.ReadFile(target)
			if err != nil {
				t.Errorf("%s: %v", page, err)
				continue
			}
			exists := false
			for line := range strings.Lines(fenced.ReplaceAllString(string(to), "")) {
				exists = exists || strings.HasPrefix(line, "#") && anchor(line) == m[2]
			}
			if !exists {
				t.Errorf("%s: %s has no heading for #%s", page, target, m[2])
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d anchors were found", found)
	}
}
