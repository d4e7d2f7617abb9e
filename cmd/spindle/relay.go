package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spindleloop/spindle/cmd/spindle/relaydemo"
	"github.com/spindleloop/spindle/relay"
)

const relayHelp = `
spindle relay demo [flags]    a web plane and two workers, with a page
spindle relay bench [flags]   measure calls between the planes

The web plane is a loop that takes requests. Workers do what blocks. A bus is between
them: in this process, or with --nats a broker, and then the same program runs on many
machines. 'spindle relay demo --help' explains the demo, and so on.
`

const relayDemoHelp = `
spindle relay demo [flags] starts a web plane and two workers, and a page that shows
requests in flight, waiters, replies and cancels. Its buttons send requests, leave
before the answer, and kill a worker. Open the printed URL; interrupt the command to
end it.

  spindle relay demo                                on http://127.0.0.1:8080
  spindle relay demo --nats nats://127.0.0.1:4222   the same on a broker
  spindle relay demo --nats embedded                on a broker that the command starts

With --nats it runs the command spindle-nats, which is in a module of its own:
(cd relay/nats && go install ./cmd/spindle-nats) in a checkout of Spindle.

Other paths:

  /work?ms=500             a call that takes that long
  /state                   what the page shows, as JSON
  POST /burst?n=100        that many calls at a time
  POST /workers/1/kill     ends a worker; /workers/1/start starts it again
  /health                  the web plane answers
  /ready                   whether the bus is connected
`

const relayBenchHelp = `
spindle relay bench [flags] measures calls from a task to a worker's goroutine and
back, beside two Go channels, in the same run. It also measures how quickly the web
plane answers while all workers are blocked. It prints tables; with --json the medians
have these keys, among others:

  call_ns            one call at a time
  go_channel_ns      a value sent to a goroutine, and one sent back
  calls_per_s        with 64 calls in flight
  health_p99_ratio   the 99th percentile of /health with blocked workers over that with
                     idle ones
  waiter_bytes       memory of one of 100,000 calls that wait
  cancel_all_ms      from the end of the scope of 100,000 tasks until their calls have
                     returned; cancel_streams_ms is to close as many streams

With --nats it also measures calls on a broker beside the plain client of NATS:
nats_ratio is the plain client's time over a call's, nats_many_ratio the ratio of the
rates with 64 in flight, and nats_goroutine_ratio the same for a plain worker with
handlers that may block. For these ratios, higher is better.
`

func runRelay(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := flag.NewFlagSet("relay", flag.ContinueOnError)
	if err := parse(flags, relayHelp, args, out); err != nil {
		if !errors.Is(err, flag.ErrHelp) { // there are none, so it is another command's
			err = fmt.Errorf("the flag %s must follow demo or bench; see 'spindle relay --help'", args[0])
		}
		return err
	}
	switch flags.Arg(0) {
	case "demo":
		return runRelayDemo(ctx, flags.Args()[1:], out, errs)
	case "bench":
		return runRelayBench(ctx, flags.Args()[1:], out, errs)
	case "":
		return errors.New("want demo or bench; see 'spindle relay --help'")
	}
	return fmt.Errorf("no %q; want demo or bench; see 'spindle relay --help'", flags.Arg(0))
}

func runRelayDemo(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := flag.NewFlagSet("relay demo", flag.ContinueOnError)
	addr := flags.String("addr", "127.0.0.1:8080", "`HOST:PORT` to listen on")
	servers := flags.String("nats", "", "`URL` of a NATS server, or several with commas; or embedded")
	if err := parse(flags, relayDemoHelp, args, out); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("got the argument %q, want none; see 'spindle relay demo --help'", flags.Arg(0))
	}
	at, err := resolve(ctx, *addr)
	if err != nil {
		return err
	}
	if *servers != "" {
		return runNATS(ctx, []string{"demo", "--addr", at, "--nats", *servers}, out, errs)
	}
	bus := relay.NewLocal(relay.LocalOptions{})
	err = relaydemo.Serve(ctx, at, relaydemo.Options{
		Bus:     "in this process",
		Connect: func(context.Context) (relay.Bus, error) { return shared{bus}, nil },
	}, func(a net.Addr) { fmt.Fprintf(out, "spindle relay demo: http://%v\n", a) })
	return listenError(err, at, "choose another with --addr")
}

// shared is a bus that the planes share, so none of them closes it.
type shared struct{ relay.Bus }

func (shared) Close() error { return nil }

func runRelayBench(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := flag.NewFlagSet("relay bench", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "print JSON")
	quick := flags.Bool("quick", false, "measure for a moment only")
	servers := flags.String("nats", "", "`URL` of a NATS server, or several with commas; or embedded")
	if err := parse(flags, relayBenchHelp, args, out); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("got the argument %q, want none; see 'spindle relay bench --help'", flags.Arg(0))
	}
	if *servers != "" {
		return runNATS(ctx, []string{"bench", fmt.Sprint("--json=", *asJSON), fmt.Sprint("--quick=", *quick), "--nats", *servers}, out, errs)
	}
	return relaydemo.Bench(ctx, out, relaydemo.BenchOptions{JSON: *asJSON, Quick: *quick})
}

// natsCommand is the command that runs relay on NATS. It is in a module of its own, so that
// this one does not depend on NATS.
const natsCommand = "spindle-nats"

// runNATS runs natsCommand: the one beside this command, one in the path, or one that go
// install has made.
func runNATS(ctx context.Context, args []string, out, errs io.Writer) error {
	name, err := findNATS()
	if err != nil {
		return fmt.Errorf("--nats: the command %s is not installed; in a checkout of Spindle, run (cd relay/nats && go install ./cmd/%s)", natsCommand, natsCommand)
	}
	child := exec.CommandContext(ctx, name, args...)
	child.Stdout, child.Stderr = out, errs
	child.Cancel = func() error { return child.Process.Signal(os.Interrupt) }
	child.WaitDelay = 20 * time.Second
	err = child.Run()
	var exit *exec.ExitError
	ended := errors.As(err, &exit)
	switch {
	case ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)):
		return nil
	case ctx.Err() != nil && ended && exit.ExitCode() == -1:
		return nil // a terminal interrupts both commands, so ours was its second signal, which ends it
	case ended:
		return fmt.Errorf("%s failed: %w", natsCommand, err)
	}
	return err
}

func findNATS() (string, error) {
	if self, err := os.Executable(); err == nil {
		if name, err := exec.LookPath(filepath.Join(filepath.Dir(self), natsCommand)); err == nil {
			return name, nil
		}
	}
	if name, err := exec.LookPath(natsCommand); err == nil {
		return name, nil
	}
	return exec.LookPath(filepath.Join(goBin(), natsCommand))
}

// goBin returns the directory that go install writes to. Not every path has it.
func goBin() string {
	if dir := os.Getenv("GOBIN"); dir != "" {
		return dir
	}
	if all := filepath.SplitList(os.Getenv("GOPATH")); len(all) > 0 {
		return filepath.Join(all[0], "bin")
	}
	home, _ := os.UserHomeDir() // without one, the command is not found
	return filepath.Join(home, "go", "bin")
}
