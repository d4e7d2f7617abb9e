package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spindleloop/spindle/cmd/spindle/project"
)

const newHelp = `
spindle new writes a small project: a program with tests in virtual time and a simulation.

  spindle new NAME                   a web service, in the new directory NAME
  spindle new --kind protocol NAME   a server with a protocol of its own

NAME may be a path; its last part is the name of the project. Kinds:

%s
A project needs a release of Spindle, or a checkout (--source). A command that was built from
a checkout and runs there uses that one.
`

func runNew(_ context.Context, args []string, out, _ io.Writer) error {
	flags := flag.NewFlagSet("new", flag.ContinueOnError)
	kind := flags.String("kind", "service", "`KIND` of the project")
	source := flags.String("source", "", "`DIR` of a checkout of Spindle, used in place of a release")
	dir, args := leading(args)
	if err := parse(flags, fmt.Sprintf(newHelp, kindList()), args, out); err != nil {
		return err
	}
	if dir == "" && flags.NArg() == 1 {
		dir = flags.Arg(0)
	} else if flags.NArg() > 0 || dir == "" {
		return errors.New("want one NAME; see 'spindle new --help'")
	}
	p := project.Project{Dir: dir, Kind: *kind}
	if err := locate(&p, *source); err != nil {
		return err
	}
	k, names, err := p.Write()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "wrote %s: %s\n\n  cd %s\n", dir, strings.Join(names, ", "), dir)
	for _, command := range k.Tests {
		if strings.Contains(command, "%s") {
			if p.Source == "" {
				continue // it is among the dependencies
			}
			command = fmt.Sprintf(command, filepath.Join(p.Source, "python"))
		}
		fmt.Fprintln(out, " ", command)
	}
	for _, command := range k.Program {
		fmt.Fprintln(out, " ", command)
	}
	return nil
}

// leading takes a name that comes before the flags, as in spindle new NAME --kind python.
func leading(args []string) (name string, rest []string) {
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		return args[0], args[1:]
	}
	return "", args
}

func kindList() string {
	var list strings.Builder
	for _, k := range project.Kinds {
		fmt.Fprintf(&list, "  %-9s %s\n", k.Name, k.About)
	}
	return list.String()
}

// release matches versions that the go command can fetch.
var release = regexp.MustCompile(`^v\d+\.\d+\.\d+$`)

// locate sets where the project gets Spindle from: the checkout at source, or the release of this
// command, or the checkout that the command runs in.
func locate(p *project.Project, source string) error {
	if source == "" && release.MatchString(moduleVersion()) {
		p.Version = moduleVersion()
		return nil
	}
	root, ok := project.Checkout(source)
	switch {
	case !ok && source == "":
		return errors.New("this command is not of a release; name a checkout of Spindle with --source DIR")
	case !ok:
		return fmt.Errorf("--source %s is not a checkout of Spindle", source)
	}
	p.Source = root
	return nil
}
