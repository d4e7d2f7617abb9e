package tidy_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
)

// banned are words and pairs of words that a reader of technical English stumbles over: code
// is no person, and there is a plainer word for each.
var banned = map[string]bool{
	"who": true, "whose": true, "whoever": true, "whom": true, "whomever": true,
	"somebody": true, "nobody": true, "everybody": true, "anybody": true,
	"he": true, "him": true, "of his": true, "of which": true,
	"tell whether": true, "tells whether": true, "told whether": true,
	"abroad": true, "heed": true, "heeds": true, "heeded": true, "doomed": true,
}

// bannedIn returns the banned phrases of a text.
func bannedIn(text string) (found []string) {
	before := ""
	for word := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		for _, phrase := range [2]string{word, before + " " + word} {
			if banned[phrase] {
				found = append(found, phrase)
			}
		}
		before = word
	}
	return found
}

// remaining is how many banned phrases each directory may still have. Numbers only
// shrink; a directory without a number has none.
var remaining = map[string]int{
	"internal/tidy": 1,
}

func TestEnglishIsPlain(t *testing.T) {
	found, first := map[string]int{}, map[string]string{}
	note := func(path, text string) {
		for _, phrase := range bannedIn(text) {
			dir := filepath.ToSlash(filepath.Dir(path))
			if found[dir]++; found[dir] > remaining[dir] && first[dir] == "" {
				first[dir] = path + ": " + phrase
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
