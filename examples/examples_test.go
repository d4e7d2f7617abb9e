// Package examples_test holds all examples to what they promise together: each is
// short, and each is run by a test.
package examples_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const mostLines = 99

func TestEachIsShortAndTested(t *testing.T) {
	mains, err := filepath.Glob("*/main.go")
	if err != nil || len(mains) == 0 {
		t.Fatal("no examples found", err)
	}
	index, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range mains {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(text, []byte("\n")); n > mostLines {
			t.Errorf("%s has %d lines; at most %d", file, n, mostLines)
		}
		dir := filepath.Dir(file)
		if test, err := os.ReadFile(filepath.Join(dir, "main_test.go")); err != nil || !bytes.Contains(test, []byte("func Test")) {
			t.Errorf("%s has no test: %v", dir, err)
		}
		if !strings.Contains(string(index), "["+dir+"]("+dir+"/main.go)") {
			t.Errorf("%s is not in README.md", dir)
		}
	}
}
