package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spindleloop/spindle/internal/version"
	"github.com/spindleloop/spindle/loop"
)

const versionHelp = `
spindle version prints the version of this command and what it was built from, the version
of Go it was built with, the system, and the poller that loops use on it.

  spindle version
`

func runVersion(_ context.Context, args []string, out, _ io.Writer) error {
	flags := flag.NewFlagSet("version", flag.ContinueOnError)
	if err := parse(flags, versionHelp, args, out); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; see 'spindle version --help'", flags.Arg(0))
	}
	l, err := loop.New(loop.Options{})
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Fprintf(out, "spindle %s, %s, %s/%s, %s\n", moduleVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH, l.Internal().Kernel().Name())
	return nil
}

// moduleVersion returns the version of the module. For a command that was not built from a release,
// the commit follows.
func moduleVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" || info.Main.Version == "v"+version.Number {
		return version.Number
	}
	return version.Number + " (" + info.Main.Version + ")"
}
