// Command typecheck checks the types of a module's packages and tests for other systems:
//
//	go -C .ci/typecheck run . ../.. darwin/amd64 linux/386
//
// It reads the dependencies and the standard library from source. Go vet compiles them for
// each system first, which takes much longer.
package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: typecheck DIRECTORY SYSTEM/ARCHITECTURE...")
		os.Exit(2)
	}
	failed := false
	for _, system := range os.Args[2:] {
		n, err := check(os.Args[1], system)
		if err != nil {
			fmt.Fprintf(os.Stderr, "typecheck: %s: %v\n", system, err)
			failed = true
			continue
		}
		fmt.Printf("%s: %d packages and tests\n", system, n)
	}
	if failed {
		os.Exit(1)
	}
}

// check prints the errors of the module in dir. It returns the number of packages and tests
// in it.
func check(dir, system string) (int, error) {
	goos, goarch, ok := strings.Cut(system, "/")
	if !ok {
		return 0, fmt.Errorf("not of the form SYSTEM/ARCHITECTURE")
	}
	all, err := packages.Load(&packages.Config{
		Mode:  packages.LoadAllSyntax,
		Dir:   dir,
		Tests: true,
		Env:   append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0"),
	}, "./...")
	if err != nil {
		return 0, err
	}
	if n := packages.PrintErrors(all); n > 0 {
		return 0, fmt.Errorf("%d errors", n)
	}
	return len(all), nil
}
