package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEveryPageIsInTheNavigation writes the sources of the site from the pages as they are.
func TestEveryPageIsInTheNavigation(t *testing.T) {
	t.Chdir("../..")
	dir := t.TempDir()
	if err := stage(".", dir); err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(filepath.Join(dir, "zensical.toml"))
	if err != nil {
		t.Fatal(err)
	}
	var pages []string
	err = filepath.WalkDir(filepath.Join(dir, "docs"), func(file string, entry os.DirEntry, err error) error {
		if filepath.Ext(file) == ".md" {
			name, _ := filepath.Rel(filepath.Join(dir, "docs"), file)
			pages = append(pages, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil || len(pages) < 60 {
		t.Fatal(pages, err)
	}
	for _, page := range pages {
		if !strings.Contains(string(config), `"`+page+`"`) {
			t.Errorf("%s is not in the navigation of zensical.toml", page)
		}
	}
	for _, match := range regexp.MustCompile(`"([^"]+\.md)"`).FindAllStringSubmatch(string(config), -1) {
		if !slices.Contains(pages, match[1]) {
			t.Errorf("the navigation has %s, and there is no such page", match[1])
		}
	}
}

func TestRewrite(t *testing.T) {
	pages := map[string]string{"README.md": "index.md", "docs/guide/web.md": "guide/web.md", "docs/figures.md": "figures.md"}
	for _, test := range []struct{ from, text, want string }{
		{"README.md", "[a](docs/guide/web.md#b)", "[a](guide/web.md#b)"},
		{"docs/guide/web.md", "[a](../../README.md)", "[a](../index.md)"},
		{"docs/guide/web.md", "[a](../../LICENSE)", "[a](" + repository + "/blob/main/LICENSE)"},
		{"docs/guide/web.md", "[a](../../examples)", "[a](" + repository + "/tree/main/examples)"},
		{"README.md", "[a](https://go.dev) [b](#c) `[d](e)`", "[a](https://go.dev) [b](#c) `[d](e)`"},
		{"README.md", "```go part\n[a](b)\n```\n", "```go\n[a](b)\n```\n"},
		{"README.md", "```go main.go\n```\n```output\n```\n", "```go title=\"main.go\"\n```\n```text\n```\n"},
	} {
		got, err := rewrite("../..", test.from, pages[test.from], test.text, pages)
		if err != nil || got != test.want {
			t.Errorf("%q of %s is %q, %v; want %q", test.text, test.from, got, err, test.want)
		}
	}
	if _, err := rewrite("../..", "README.md", "index.md", "[a](no-such-file.md)", pages); err == nil {
		t.Error("a link to a file that does not exist is accepted")
	}
}

func TestBrokenLinksAreFound(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"index.html":   `<a href="a/#here"> <a href="a/#there"> <a href="b/"> <img src="c.svg"> <a href="https://go.dev/x">`,
		"a/index.html": `<h1 id="here"> <a href="../"> <a href="#here"> <a href="#nowhere"> <a href="../index.html?x=1">`,
	} {
		if err := write(filepath.Join(dir, name), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := brokenLinks(dir)
	want := []string{
		"a/index.html: #nowhere: the page has no such place",
		"index.html: a/#there: the page has no such place",
		"index.html: b/: there is no such file",
		"index.html: c.svg: there is no such file",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	if _, err := brokenLinks(t.TempDir()); err == nil {
		t.Error("a site without pages is accepted")
	}
}
