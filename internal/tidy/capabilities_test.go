package tidy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	capability  = regexp.MustCompile("(?m)^\\|.*`([^`]+)` \\|$")
	testPattern = regexp.MustCompile(`-run '?([^ ']+)'?`)
	testFunc    = regexp.MustCompile(`(?m)^func ((?:Test|Example)\w*)\(`)
)

// TestCapabilitiesHaveCommands: the paths in commands of docs/design/capabilities.md exist, and a
// pattern of tests matches one in each of its packages.
func TestCapabilitiesHaveCommands(t *testing.T) {
	text, err := os.ReadFile("../../docs/design/capabilities.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := capability.FindAllStringSubmatch(string(text), -1)
	if len(rows) < 60 {
		t.Errorf("%d rows with commands", len(rows))
	}
	for _, row := range rows {
		command := strings.ReplaceAll(row[1], `\|`, "|")
		dir := "../.."
		if module, rest, ok := strings.Cut(strings.TrimPrefix(command, "cd "), " && "); ok {
			dir, command = filepath.Join(dir, module), rest
		}
		pattern := ""
		if m := testPattern.FindStringSubmatch(command); m != nil {
			pattern = m[1]
			command = strings.Replace(command, m[0], "", 1)
		}
		words := strings.Fields(command)
		for _, word := range words[1:] {
			path := filepath.Join(dir, strings.TrimSuffix(word, "/..."))
			switch isPath := strings.HasPrefix(word, ".") || strings.HasPrefix(word, "python/"); {
			case !isPath:
			case pattern != "" && !hasTest(t, path, pattern):
				t.Errorf("%s: no test of %s has such a name", row[1], word)
			default:
				if _, err := os.Stat(path); err != nil {
					t.Errorf("%s: %v", row[1], err)
				}
			}
		}
	}
}

// hasTest reports whether a directory has a test with a name that matches.
func hasTest(t *testing.T, dir, pattern string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
			if regexp.MustCompile(pattern).MatchString(m[1]) {
				return true
			}
		}
	}
	return false
}
