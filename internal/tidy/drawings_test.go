package tidy_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// drawn are the drawings of ARCHITECTURE.md that name functions, and where those are declared: Go's
// as Type.method or with a capital letter, and those of C with parentheses.
var drawn = map[string]struct{ goFiles, cFiles string }{
	"A relay call":    {"relay/*.go", ""},
	"An ASGI request": {"python/libspindle/*.go", "python/src/*.c"},
}

var (
	drawing = regexp.MustCompile("(?s)```\n(.*?)```")
	goNamed = regexp.MustCompile(`\b(?:[a-zA-Z]\w*\.[a-zA-Z]\w*|Spindle[A-Z]\w*)\b`)
	cNamed  = regexp.MustCompile(`\b([a-z]\w*)\(\)`)
)

func TestDrawingsNameFunctionsThatExist(t *testing.T) {
	atRoot(t)
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	for title, places := range drawn {
		_, section, _ := strings.Cut(string(text), "\n## "+title+"\n")
		picture := drawing.FindString(section)
		declared := map[string]bool{"Loop.RunOnce": true} // of package loop
		for _, file := range glob(t, places.goFiles) {
			maps.Copy(declared, functionsOf(t, file))
		}
		names := goNamed.FindAllString(picture, -1)
		for _, name := range names {
			if !declared[name] {
				t.Errorf("ARCHITECTURE.md: %s: there is no function %s in %s", title, name, places.goFiles)
			}
		}
		var c strings.Builder
		for _, file := range glob(t, places.cFiles) {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			c.Write(source)
		}
		for _, match := range cNamed.FindAllStringSubmatch(picture, -1) {
			names = append(names, match[1])
			if match[1] != "receive" && !regexp.MustCompile(`(?m)^[a-zA-Z].*\b`+match[1]+`\(.*\{$`).MatchString(c.String()) {
				t.Errorf("ARCHITECTURE.md: %s: there is no function %s in %s", title, match[1], places.cFiles)
			}
		}
		if len(names) < 10 {
			t.Errorf("ARCHITECTURE.md: %s: found only %q", title, names)
		}
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 && pattern != "" {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	return files
}
