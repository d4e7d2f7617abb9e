// Command spindle-nats is "spindle relay" on NATS. It is a command of its own, so that the
// module of the command spindle does not depend on NATS. "spindle relay --nats" runs it.
//
//	spindle-nats demo --nats nats://127.0.0.1:4222
//	spindle-nats demo --nats embedded
//	spindle-nats bench --json
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
	"syscall"
	"time"

	"github.com/spindleloop/spindle/cmd/spindle/cmdline"
	"github.com/spindleloop/spindle/cmd/spindle/relaydemo"
	"github.com/spindleloop/spindle/internal/report"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/nats"
	"github.com/spindleloop/spindle/relay/nats/broker"
	"github.com/spindleloop/spindle/relay/nats/internal/natsbench"
)

const help = `Spindle-nats runs "spindle relay" on NATS.

  spindle-nats demo    a web plane and two workers, with a page
  spindle-nats bench   measure calls beside those of the plain client of NATS

'spindle-nats COMMAND --help' lists the flags.
`

func main() {
	signaled, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(signaled, stop) // a second signal ends the process at once
	os.Exit(execute(signaled, os.Args[1:], os.Stdout, os.Stderr))
}

// execute runs a command line and returns the exit code: 0, or 2 for an error, which it
// prints.
func execute(ctx context.Context, args []string, out, errs io.Writer) int {
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	var err error
	switch name {
	case "demo":
		err = demo(ctx, args[1:], out)
	case "bench":
		err = bench(ctx, args[1:], out)
	case "help", "-h", "-help", "--help":
		fmt.Fprint(out, help)
	case "":
		fmt.Fprint(errs, help)
		return 2
	default:
		err = fmt.Errorf("no command %q; 'spindle-nats help' lists them", name)
	}
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	fmt.Fprintf(errs, "spindle-nats: %v\n", err)
	return 2
}

// parse parses the flags of a command without arguments.
func parse(flags *flag.FlagSet, args []string, out io.Writer) error {
	if err := cmdline.Parse("spindle-nats", flags, "Spindle-nats "+flags.Name()+" has these flags.", args, out); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%s: got the argument %q, want none; see 'spindle-nats %[1]s --help'", flags.Name(), flags.Arg(0))
	}
	return nil
}

const natsUsage = "`URL` of a NATS server, or several with commas; embedded starts one"

func demo(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	addr := flags.String("addr", "127.0.0.1:8080", "`HOST:PORT` to listen on")
	servers := flags.String("nats", "embedded", natsUsage)
	if err := parse(flags, args, out); err != nil {
		return err
	}
	url, stop, err := open(*servers)
	if err != nil {
		return err
	}
	defer stop()
	return relaydemo.Serve(ctx, *addr, relaydemo.Options{
		Bus:     "NATS, " + nats.Redacted(url),
		Connect: func(ctx context.Context) (relay.Bus, error) { return nats.Connect(ctx, url, nats.Options{}) },
	}, func(a net.Addr) { fmt.Fprintf(out, "spindle relay demo: http://%v on %s\n", a, nats.Redacted(url)) })
}

func bench(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "print JSON")
	quick := flags.Bool("quick", false, "measure for a moment only")
	servers := flags.String("nats", "embedded", natsUsage)
	if err := parse(flags, args, out); err != nil {
		return err
	}
	url, stop, err := open(*servers)
	if err != nil {
		return err
	}
	defer stop()
	return relaydemo.Bench(ctx, out, relaydemo.BenchOptions{JSON: *asJSON, Quick: *quick, NATS: func(ctx context.Context, quick bool) ([]report.Section, error) {
		o := natsbench.Options{}
		if quick {
			o = natsbench.Options{Rounds: 1, Round: 5 * time.Millisecond}
		}
		return natsbench.Measure(ctx, url, o)
	}})
}

// open returns the URL of the servers. For "embedded" it starts one.
func open(servers string) (url string, stop func(), err error) {
	if servers != "embedded" {
		return servers, func() {}, nil
	}
	b, err := broker.Start(broker.Options{})
	if err != nil {
		return "", nil, err
	}
	return b.URL(), b.Close, nil
}
