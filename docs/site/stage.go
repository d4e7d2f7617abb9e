package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// repository is where links to files that are not on the site lead.
const repository = "https://github.com/spindleloop/spindle"

// moved are the pages that have another place on the site than in the repository. The other pages
// are those of docs.
var moved = map[string]string{
	"README.md":             "index.md",
	"ARCHITECTURE.md":       "architecture.md",
	"CHANGELOG.md":          "changelog.md",
	"CONTRIBUTING.md":       "contributing.md",
	"bench/README.md":       "bench.md",
	"examples/README.md":    "examples.md",
	"python/README.md":      "python.md",
	"docs/guide/README.md":  "guide/index.md",
	"docs/design/README.md": "design/index.md",
}

// stage writes the sources of the site to dir: zensical.toml, and the pages in docs.
func stage(root, dir string) error {
	pages, err := pagesOf(root)
	if err != nil {
		return err
	}
	for from, to := range pages {
		text, err := os.ReadFile(filepath.Join(root, from))
		if err != nil {
			return err
		}
		if path.Ext(from) == ".md" {
			page, err := rewrite(root, from, to, string(text), pages)
			if err != nil {
				return err
			}
			text = []byte(page)
		}
		if err := write(filepath.Join(dir, "docs", to), text); err != nil {
			return err
		}
	}
	packages, err := reference(root, filepath.Join(dir, "docs", "reference"))
	if err != nil {
		return err
	}
	config, err := os.ReadFile(filepath.Join(root, "docs", "site", "zensical.toml"))
	if err != nil {
		return err
	}
	design, err := titles(root, "design/[0-9]*.md", "")
	if err != nil {
		return err
	}
	more, err := titles(root, "guide/*.md", string(config)+"guide/README.md")
	if err != nil {
		return err
	}
	nav := strings.NewReplacer("# REFERENCE\n", packages, "# DESIGN\n", design, "# MORE\n", more)
	return write(filepath.Join(dir, "zensical.toml"), []byte(nav.Replace(string(config))))
}

// titles returns lines of the navigation for the pages of docs that match a pattern, by their
// titles. Pages that listed names already are left out.
func titles(root, pattern, listed string) (nav string, err error) {
	pages, err := fs.Glob(os.DirFS(filepath.Join(root, "docs")), pattern)
	for _, page := range pages {
		if strings.Contains(listed, page) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, "docs", page))
		if err != nil {
			return "", err
		}
		title, _, _ := strings.Cut(strings.TrimPrefix(string(text), "# "), "\n")
		nav += fmt.Sprintf("      { %q = %q },\n", title, page)
	}
	return nav, err
}

// pagesOf returns the pages and pictures, from their paths in the repository to those on the site.
func pagesOf(root string) (map[string]string, error) {
	pages := map[string]string{}
	for from, to := range moved {
		pages[from] = to
	}
	docs := filepath.Join(root, "docs")
	err := filepath.WalkDir(docs, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		switch filepath.Ext(file) {
		case ".md", ".svg", ".png", ".json":
			to, err := filepath.Rel(docs, file)
			if from := path.Join("docs", filepath.ToSlash(to)); pages[from] == "" {
				pages[from] = filepath.ToSlash(to)
			}
			return err
		}
		return nil
	})
	return pages, err
}

var (
	// fence matches the first line of a block of a kind that only the tests of the guide know: "output",
	// "go part", or "go" with the name of a file.
	fence = regexp.MustCompile("(?m)^( *```)(?:(output|tree|failure)|go (\\S+))$")
	// link matches a link, or the code that must not be taken for one.
	link = regexp.MustCompile("(?ms)^ *```.*?^ *```|`[^`\n]+`|\\]\\(([^)\\s]+)\\)")
)

// rewrite returns a page as the site needs it. Links to other pages lead to their places on the
// site, and those to other files to the repository.
func rewrite(root, from, to, text string, pages map[string]string) (string, error) {
	var wrong error
	text = link.ReplaceAllStringFunc(text, func(match string) string {
		target, ok := strings.CutPrefix(match, "](")
		if !ok || strings.Contains(target, "://") || strings.HasPrefix(target, "#") {
			return match
		}
		target, anchor, _ := strings.Cut(strings.TrimSuffix(target, ")"), "#")
		if anchor != "" {
			anchor = "#" + anchor
		}
		at := path.Join(path.Dir(from), target)
		if page, ok := pages[at]; ok {
			relative, err := filepath.Rel(path.Dir(to), page)
			if err != nil {
				wrong = err
			}
			return "](" + filepath.ToSlash(relative) + anchor + ")"
		}
		info, err := os.Stat(filepath.Join(root, at))
		switch {
		case err != nil:
			wrong = fmt.Errorf("%s: %w", from, err)
			return match
		case info.IsDir():
			return "](" + repository + "/tree/main/" + at + ")"
		}
		return "](" + repository + "/blob/main/" + at + anchor + ")"
	})
	return blocks(text), wrong
}

// blocks rewrites the kinds of blocks to those that the generator knows.
func blocks(text string) string {
	return fence.ReplaceAllStringFunc(text, func(match string) string {
		part := fence.FindStringSubmatch(match)
		switch {
		case part[2] != "":
			return part[1] + "text"
		case path.Ext(part[3]) == ".go":
			return fmt.Sprintf("%sgo title=%q", part[1], part[3])
		}
		return part[1] + "go"
	})
}

func write(file string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o666)
}
