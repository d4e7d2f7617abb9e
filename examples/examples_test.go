// Package examples_test checks what README.md says about the examples: how long they are,
// and that each has a test.
package examples_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// limits are the lines of Go that an example may have, without its tests, by the section of
// README.md that lists it.
var limits = map[string]int{"Short programs": 99, "A loop from scratch": 139, "Larger programs": 399}

func TestExamplesAreListedShortAndTested(t *testing.T) {
	index, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	mains, err := filepath.Glob("*/main.go")
	if err != nil || len(mains) == 0 {
		t.Fatal("no examples found", err)
	}
	for _, main := range mains {
		dir := filepath.Dir(main)
		limit, ok := limits[section(string(index), "["+dir+"]("+dir+"/main.go)")]
		if !ok {
			t.Errorf("%s is not listed in README.md", dir)
		}
		if n := lines(t, dir); n > limit {
			t.Errorf("%s has %d lines; its section allows %d", dir, n, limit)
		}
		if test, err := os.ReadFile(filepath.Join(dir, "main_test.go")); err != nil || !bytes.Contains(test, []byte("func Test")) {
			t.Errorf("%s has no test: %v", dir, err)
		}
	}
}

// section returns the heading above text in a page.
func section(page, text string) string {
	before, _, found := strings.Cut(page, text)
	if !found {
		return ""
	}
	heading, _, _ := strings.Cut(before[strings.LastIndex(before, "## ")+3:], "\n")
	return heading
}

func lines(t *testing.T, dir string) (n int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		n += bytes.Count(text, []byte("\n"))
	}
	return n
}
