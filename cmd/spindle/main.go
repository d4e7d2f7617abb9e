// Command spindle runs and measures the Spindle event loop.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"

	"github.com/spindleloop/spindle/cmd/spindle/cmdline"
)

// command is a subcommand.
type command struct {
	name    string
	summary string
	run     func(ctx context.Context, args []string, out, errs io.Writer) error
}

var commands = []command{
	{"new", "write a small project, with tests and a simulation", runNew},
	{"serve", "a web server: files, or a page that shows the loop at work", runServe},
	{"echo", "an echo server: send it bytes, get them back", runEcho},
	{"connect", "an interactive client: send lines, see what comes back", runConnect},
	{"proxy", "a TCP proxy: forwards connections from one address to another", runProxy},
	{"relay", "a web plane and its workers: a page that shows them, and their speed", runRelay},
	{"top", "show the loops and tasks of a running program", runTop},
	{"sim", "run a program in simulated worlds until one run fails", runSim},
	{"bench", "measure callbacks, timers, posts, readiness, idling, tasks and channels", runBench},
	{"version", "print the version, Go's version, the system and the poller", runVersion},
}

func main() {
	signaled, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, end := context.WithCancel(context.Background())
	// The first signal shuts the command down. After that, signals have their default
	// effect: a second one ends the process at once.
	context.AfterFunc(signaled, func() {
		stop()
		end()
	})
	os.Exit(execute(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// errFound is returned by a command that searched for a failure, found one and printed it.
var errFound = errors.New("found")

// execute runs a command line and returns the exit code: 0 for success, 1 if a search found
// a failure, and 2 for an error, which it prints in one line.
func execute(ctx context.Context, args []string, out, errs io.Writer) int {
	if len(args) > 0 && args[0] == "--cpuprofile" {
		if len(args) < 3 {
			fmt.Fprintln(errs, "spindle: --cpuprofile needs a file and a command: spindle --cpuprofile FILE COMMAND")
			return 2
		}
		stop, err := profile(args[1])
		if err != nil {
			fmt.Fprintf(errs, "spindle: --cpuprofile: %v\n", err)
			return 2
		}
		defer stop()
		args = args[2:]
	}
	if len(args) == 0 {
		usage(errs)
		return 2
	}
	switch args[0] {
	case "--version", "-version":
		args = append([]string{"version"}, args[1:]...)
	case "help", "-h", "-help", "--help":
		if len(args) == 1 {
			usage(out)
			return 0
		}
		args = []string{args[1], "--help"}
	}
	for _, c := range commands {
		if c.name != args[0] {
			continue
		}
		err := c.run(ctx, args[1:], out, errs)
		if err == nil || errors.Is(err, flag.ErrHelp) {
			return 0
		}
		if errors.Is(err, errFound) {
			return 1
		}
		fmt.Fprintf(errs, "spindle %s: %v\n", c.name, err)
		return 2
	}
	fmt.Fprintf(errs, "spindle: no command %q; 'spindle help' lists them\n", args[0])
	return 2
}

// listenError returns err, with the address and a remedy if a command could not listen there.
func listenError(err error, at, remedy string) error {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "listen" {
		return err
	}
	why := op.Err
	if call, ok := why.(*os.SyscallError); ok { // the name of the call says nothing to a user
		why = call.Err
	}
	return fmt.Errorf("listen on %s: %w; %s", at, why, remedy)
}

// profile writes a CPU profile to a file until stop is called.
func profile(name string) (stop func(), err error) {
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		f.Close()
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		f.Close()
	}, nil
}

func usage(w io.Writer) {
	fmt.Fprint(w, "Spindle is an event loop for Go. This command shows it at work.\n\n")
	for _, c := range commands {
		fmt.Fprintf(w, "  spindle %-7s %s\n", c.name, c.summary)
	}
	fmt.Fprint(w, "\n'spindle COMMAND --help' explains a command and its flags;\n'spindle --cpuprofile FILE COMMAND' profiles it.\n")
}

// parse parses the flags of a command. For --help it prints text and the flags.
func parse(flags *flag.FlagSet, text string, args []string, out io.Writer) error {
	return cmdline.Parse("spindle", flags, text, args, out)
}
