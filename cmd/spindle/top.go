package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spindleloop/spindle/cmd/spindle/top"
)

const topHelp = `
spindle top [flags] ADDR shows the loops and tasks of a running program, which serves
package inspect at ADDR: HOST:PORT, or the URL of the inspector's page. On a terminal it
shows them until you press q; elsewhere it prints them once.

  spindle top 127.0.0.1:6061          a program that calls inspect.Serve
  spindle top 127.0.0.1:8080          'spindle serve', or a program that mounts
                                      inspect.Handler at /debug/spindle/
  spindle top --once 127.0.0.1:6061   tables, for a log
  spindle top --json 127.0.0.1:6061   a snapshot, for jq

Keys: up and down choose a task, Enter shows its stack, b, a, w and t sort by busy time,
age, waiting time and as a tree, / filters, x shows what blocked a loop, p pauses, q
quits. If the inspector wants a token, set it in the environment variable
SPINDLE_INSPECT_TOKEN. If NO_COLOR is set, it uses no colours.
`

func runTop(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := flag.NewFlagSet("top", flag.ContinueOnError)
	once := flags.Bool("once", false, "print tables of loops, tasks and blocked turns, and end")
	asJSON := flags.Bool("json", false, "print a snapshot in JSON, and end")
	order := flags.String("sort", "-busy", "`ORDER` of tasks for --once: -busy, -age, -waits, tree, name, id …")
	tasks := flags.Int("tasks", 20, "number `N` of tasks for --once")
	interval := flags.Duration("interval", time.Second, "`TIME` between two looks at the program")
	if err := parse(flags, topHelp, args, out); err != nil {
		return err
	}
	switch {
	case flags.NArg() != 1:
		return fmt.Errorf("got %d arguments, want ADDR; see 'spindle top --help'", flags.NArg())
	case *once && *asJSON:
		return fmt.Errorf("--once and --json: give one of them")
	case *tasks < 1 || *tasks > 5000:
		return fmt.Errorf("--tasks %d: want 1 to 5000", *tasks)
	case *interval < 100*time.Millisecond:
		return fmt.Errorf("--interval %v: want at least 100ms", *interval)
	}
	c, err := top.Dial(ctx, flags.Arg(0), os.Getenv(top.TokenVariable))
	if err != nil {
		return fmt.Errorf("%s: %w", flags.Arg(0), err)
	}
	defer c.Close()
	screen, ok := out.(*os.File)
	if ok && !*once && !*asJSON && isTerminal(screen) && isTerminal(os.Stdin) {
		return top.Live(ctx, c, *interval, os.Stdin, screen)
	}
	if *asJSON {
		return top.JSON(ctx, c, out)
	}
	return top.Once(ctx, c, *order, *tasks, out)
}
