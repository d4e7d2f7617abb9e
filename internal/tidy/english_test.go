package tidy_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// banned are words and phrases that a reader of technical English stumbles over: code is no
// person, and there is a plainer word for each.
var banned = map[string]bool{
	"who": true, "whose": true, "whoever": true, "whom": true, "whomever": true,
	"somebody": true, "nobody": true, "everybody": true, "anybody": true,
	"he": true, "him": true, "of his": true, "of which": true,
	"tell whether": true, "tells whether": true, "told whether": true,
	"abroad": true, "heed": true, "heeds": true, "heeded": true, "doomed": true,
	"also if": true, "also when": true, "of ours": true, "dear": true, "so it is with": true,
	"in its stead": true, "sees to it": true, "see to it": true,
}

// longestBanned is the number of words in the longest banned phrase.
const longestBanned = 4

// bannedIn returns the banned phrases of a text.
func bannedIn(text string) (found []string) {
	var last []string
	for word := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		last = append(last, word)
		if len(last) > longestBanned {
			last = last[1:]
		}
		for i := range last {
			if phrase := strings.Join(last[i:], " "); banned[phrase] {
				found = append(found, phrase)
			}
		}
	}
	return found
}

// TestEnglishIsPlain reads comments, string literals and the names of functions in Go, and
// everything in documents and in the sources of the Python package.
func TestEnglishIsPlain(t *testing.T) {
	atRoot(t)
	check := func(path, text string) {
		for _, phrase := range bannedIn(text) {
			t.Errorf("%s: banned phrase: %s", path, phrase)
		}
	}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			switch entry.Name() {
			case ".git", "results", "build":
				return filepath.SkipDir
			}
			return nil
		}
		switch filepath.Ext(path) {
		case ".md", ".py", ".c", ".h":
			text, err := os.ReadFile(path)
			check(path, string(text))
			return err
		case ".go":
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
			if err != nil {
				return err
			}
			for _, text := range prose(file, path != bannedFile) {
				check(path, text)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// bannedFile is this file. Its strings are the banned phrases.
var bannedFile = filepath.Join("internal", "tidy", "english_test.go")

// words finds where a word begins inside a name.
var words = regexp.MustCompile("[A-Z][a-z]")

// prose returns what a file says in English: its comments, the names of its functions and, if
// literals is set, its strings.
func prose(file *ast.File, literals bool) (texts []string) {
	for _, group := range file.Comments {
		texts = append(texts, group.Text())
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			texts = append(texts, words.ReplaceAllString(n.Name.Name, " $0"))
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING && literals {
				texts = append(texts, text)
			}
		}
		return true
	})
	return texts
}
