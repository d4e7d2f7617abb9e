package main

import (
	"fmt"
	"html"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
)

var (
	address    = regexp.MustCompile(`\s(?:href|src)="([^"]*)"`)
	identifier = regexp.MustCompile(`\s(?:id|name)="([^"]*)"`)
)

// brokenLinks returns the links inside a site that lead nowhere: to no file, or to no element of
// a page. Links to other sites are not followed.
func brokenLinks(dir string) (broken []string, err error) {
	pages := map[string]string{}
	site := os.DirFS(dir)
	err = fs.WalkDir(site, ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && path.Ext(name) == ".html" {
			text, readErr := fs.ReadFile(site, name)
			pages[name], err = string(text), readErr
		}
		return err
	})
	if err == nil && len(pages) == 0 {
		err = fmt.Errorf("no pages in %s", dir)
	}
	for name, text := range pages {
		if name == "404.html" {
			continue // its links begin at the root of the server
		}
		for _, match := range address.FindAllStringSubmatch(text, -1) {
			if why := follow(dir, name, html.UnescapeString(match[1]), pages); why != "" {
				broken = append(broken, fmt.Sprintf("%s: %s: %s", name, match[1], why))
			}
		}
	}
	slices.Sort(broken)
	return slices.Compact(broken), err
}

// follow returns why a link of a page leads nowhere, and nothing if it leads somewhere.
func follow(dir, page, link string, pages map[string]string) string {
	to, err := url.Parse(link)
	if err != nil {
		return err.Error()
	}
	if to.Scheme != "" || to.Host != "" {
		return ""
	}
	target := page
	if to.Path != "" {
		target = path.Join(path.Dir(page), to.Path)
	}
	info, err := os.Stat(filepath.Join(dir, target))
	if err != nil {
		return "there is no such file"
	}
	if info.IsDir() {
		target = path.Join(target, "index.html")
	}
	text, isPage := pages[target]
	if to.Fragment == "" || !isPage {
		if _, err := os.Stat(filepath.Join(dir, target)); err != nil {
			return "there is no such page"
		}
		return ""
	}
	for _, match := range identifier.FindAllStringSubmatch(text, -1) {
		if html.UnescapeString(match[1]) == to.Fragment {
			return ""
		}
	}
	return "the page has no such place"
}
