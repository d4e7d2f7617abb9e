// Command site writes the sources of the documentation site: the pages of this repository, with
// links that work on the site, and the reference of its packages. Zensical makes HTML of them.
//
//	go run ./docs/site DIR        # writes DIR
//	go run ./docs/site check DIR  # looks for broken links in HTML
//
// .ci/run site does all of it.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "check":
		broken, err := brokenLinks(args[1])
		for _, link := range broken {
			fmt.Fprintln(os.Stderr, link)
		}
		if err == nil && len(broken) > 0 {
			err = fmt.Errorf("%d broken links", len(broken))
		}
		return err
	case len(args) == 1 && args[0] != "check":
		return stage(".", args[0])
	}
	return fmt.Errorf("want DIR, or check DIR")
}
