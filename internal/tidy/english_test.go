package tidy_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// banned are phrases that a reader of technical English stumbles over: code is no
// person, and there is a plainer word for each.
var banned = regexp.MustCompile(`(?i)\b(whoever|whom|whomever|somebody|nobody|everybody|anybody|of which|tells? whether|told whether|abroad|heeds?|heeded|doomed|of his|he|him)\b|\bwho(se)?\b`)

// remaining is how many banned phrases each directory may still have. Numbers only
// shrink; a directory without a number has none.
var remaining = map[string]int{
	"internal/tidy": 1,
}

func TestEnglishIsPlain(t *testing.T) {
	found, first := map[string]int{}, map[string]string{}
	note := func(path, text string) {
		for _, phrase := range banned.FindAllString(text, -1) {
			dir := filepath.ToSlash(filepath.Dir(path))
			if found[dir]++; found[dir] > remaining[dir] && first[dir] == "" {
				first[dir] = path + ": " + strings.TrimSpace(phrase)
			}
		}
	}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "results"):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".md"):
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			note(path, string(text))
		case strings.HasSuffix(path, ".go"):
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
			if err != nil {
				return err
			}
			for _, group := range file.Comments {
				note(path, group.Text())
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir, n := range found {
		if n > remaining[dir] {
			t.Errorf("%s: %d banned phrases, %d allowed; one is in %s", dir, n, remaining[dir], first[dir])
		}
	}
	for dir, n := range remaining {
		if found[dir] < n {
			t.Errorf("%s: %d banned phrases are left, %d are allowed: lower the number", dir, found[dir], n)
		}
	}
}
