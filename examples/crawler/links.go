package main

import (
	"net/url"
	"regexp"
)

var href = regexp.MustCompile(`href="([^"]*)"`)

// links returns the addresses on the page's own host that the body links to.
func links(page, body string) (found []string) {
	base, err := url.Parse(page)
	if err != nil {
		return nil
	}
	for _, match := range href.FindAllStringSubmatch(body, -1) {
		link, err := base.Parse(match[1])
		if err == nil && link.Host == base.Host {
			link.Fragment = ""
			found = append(found, link.String())
		}
	}
	return found
}
