package tidy_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/spindleloop/spindle/internal/version"
)

// TestVersionsAgree compares the places that have the version: the Go module, the Python
// package, and the newest section of the changelog, unless nothing has been released yet.
func TestVersionsAgree(t *testing.T) {
	atRoot(t)
	for _, place := range []struct{ file, pattern string }{
		{"python/spindle/_version.py", `(?m)^__version__ = "(.+)"$`},
		{"CHANGELOG.md", `(?m)^## (\d\S*)`},
	} {
		text, err := os.ReadFile(place.file)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(place.pattern).FindSubmatch(text)
		if found == nil && place.file == "CHANGELOG.md" {
			continue
		}
		if found == nil || string(found[1]) != version.Number {
			t.Errorf("%s has the version %q, and package version has %q; '.ci/release prepare VERSION' sets them", place.file, found, version.Number)
		}
	}
}
